#include "hyperion/data/ordered_work.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "tests/base/support_child.h"

namespace hyperion::data {
namespace {

struct NumberTask {
  size_t cost = 1;
};

TEST(OrderedWork, without_memory_for_its_threads_is_an_error_and_no_abort) {
  const int code = base::test::exit_code_of_child([] {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
    if (bytes > rlim_t{1} << 40) return 3;  // a sanitizer's shadow
    const rlimit most{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &most);
    try {
      OrderedWork<NumberTask, int> work(
          1000, 1, [](NumberTask&) { return false; }, [](NumberTask&) { return 1; });
    } catch (const std::system_error& error) {
      return error.code() == std::errc::resource_unavailable_try_again ? 3 : 4;
    }
    return 5;
  });
  EXPECT_EQ(code, 3);
}

}  // namespace
}  // namespace hyperion::data
