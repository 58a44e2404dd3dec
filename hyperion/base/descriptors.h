// How many files, pipes and sockets this process may have open at once.
#pragma once
#include <string>

namespace hyperion::base {

// The soft limit up to the hard one, though not beyond a million: some programs walk through all that they could have.
// What this process starts has it too.
void raise_descriptor_limit();

int descriptor_limit();

// Whether an errno says that no more can be opened.
bool lacks_descriptors(int code);

// What to do about that.
std::string descriptor_hint();

}  // namespace hyperion::base
