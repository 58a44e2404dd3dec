// Which program this is.
#pragma once
#include <string>

namespace hyperion::base {

std::string version_text();  // "0.1.0 (3f2a91c)"; the commit it was built from, with + where files were changed

}  // namespace hyperion::base
