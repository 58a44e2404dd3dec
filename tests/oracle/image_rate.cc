// image_rate FOLDER [SECONDS]: images a second and core that we make of the folder's files. For
// script/bench-images-peer.
#include <cstdio>
#include <cstdlib>

#include "hyperion/base/files.h"
#include "hyperion/bench/data_images.h"

int main(int argc, char** argv) {
  using namespace hyperion;
  if (argc < 2) return 2;
  std::vector<std::string> files;
  for (const auto& path : base::real_files().list(argv[1])) files.push_back(base::real_files().read(path));
  const auto rate = bench::time_images(files, 224, {argc > 2 ? std::atof(argv[2]) : 2.0});
  std::printf("%.2f\n", rate.images_per_second);
}
