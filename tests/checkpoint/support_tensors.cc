#include "tests/checkpoint/support_tensors.h"

#include <ATen/ops/empty.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/comm/local_transport.h"

namespace hyperion::checkpoint::test {

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-checkpoint-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw base::FileError("cannot create " + pattern, errno);
  path_ = pattern;
}
ScratchFolder::~ScratchFolder() { std::filesystem::remove_all(path_); }

at::Tensor random_tensor(std::mt19937& random, const std::vector<int64_t>& shape, at::ScalarType dtype) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(dtype));
  auto* bytes = static_cast<unsigned char*>(tensor.mutable_data_ptr());
  for (size_t i = 0; i < tensor.nbytes(); ++i) bytes[i] = dtype == at::kBool ? random() & 1 : random() & 0xff;
  return tensor;
}

Snapshot make_snapshot(int64_t step) {
  std::mt19937 random(step);
  Snapshot snapshot{step, {}, base::format("{{\"cursor\":{},\"seed\":7}}", step * 3), "0.0-test"};
  snapshot.tensors.push_back({"h.0.attn.weight", random_tensor(random, {17, 5}, at::kFloat)});
  snapshot.tensors.push_back({"h.0.attn.bias", random_tensor(random, {13}, at::kBFloat16)});
  snapshot.tensors.push_back({"optimizer.count", random_tensor(random, {}, at::kLong)});
  snapshot.tensors.push_back({"mask", random_tensor(random, {3, 1, 3}, at::kBool)});
  snapshot.tensors.push_back({"none", random_tensor(random, {0, 4}, at::kHalf)});
  return snapshot;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  return left.nbytes() == 0 || std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

bool is_snapshot(const OpenedCheckpoint& loaded, int64_t step) {
  const Snapshot expected = make_snapshot(step);
  if (loaded.step != step || loaded.state != expected.state || loaded.version != expected.version) return false;
  if (loaded.tensors.size() != expected.tensors.size()) return false;
  for (const nn::Parameter& named : expected.tensors)
    if (!same_bits(loaded.tensor(named.name), named.tensor)) return false;
  return true;
}

void write_bytes(const base::Path& path, std::string_view bytes) {
  std::filesystem::remove(path);  // some file systems flush a file that is emptied and written again
  base::real_files().create(path)->append(bytes);
}

void flip_bit(const base::Path& path, size_t byte, int bit) {
  std::string bytes = base::real_files().read(path);
  bytes.at(byte) ^= static_cast<char>(1 << bit);
  write_bytes(path, bytes);
}

std::vector<std::string> on_ranks(int ranks, const std::function<void(int rank, comm::Group& group)>& work) {
  auto transports = comm::make_local_transports(ranks);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      comm::Group group("test", std::move(transports[static_cast<size_t>(rank)]));
      errors[static_cast<size_t>(rank)] = error_of([&] { work(rank, group); });
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

std::string logged_by(const std::function<void()>& work) {
  const ScratchFolder folder;
  base::log_to_file(folder.path() / "log");
  work();
  base::log_to_file({});
  return base::real_files().read(folder.path() / "log");
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const base::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace hyperion::checkpoint::test
