// Who may ask: a token that only this user knows, and a Host that is this machine.
#pragma once
#include <string>
#include <string_view>

#include "hyperion/base/files.h"

namespace hyperion::web {

std::string new_token();  // 43 letters, digits, '-' and '_': 256 random bits

// The token in that file, made at first need, readable by nobody else: so pages that are open go on after a restart.
// Throws ConfigError where others can read it, or where it holds something else.
std::string kept_token(const base::Path& path);

// ~/.config/hyperion/dash_token, or under XDG_CONFIG_HOME; empty where this user has no home folder.
base::Path token_file();

// Takes the same time wherever the two differ.
bool same_text(std::string_view a, std::string_view b);

// Whether a Host header names this machine's loopback, on any port: an ssh tunnel may begin at another. A page of a
// stranger whose name was made to lead here has its own name there.
bool is_loopback_host(std::string_view host);

// The value of a cookie of that name in a Cookie header; empty where there is none.
std::string_view cookie_value(std::string_view header, std::string_view name);

}  // namespace hyperion::web
