#include "hyperion/cli/program.h"

int main(int argc, char** argv) { hyperion::cli::program(argc, argv); }
