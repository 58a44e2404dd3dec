// The live page: what is answered at which address, and what readers of events are told. docs/dash.md shows it.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "hyperion/dash/run_list.h"
#include "hyperion/web/server.h"

namespace hyperion::dash {

class Site {
 public:
  explicit Site(ShownRuns shown) : runs_(std::move(shown)) {}

  web::Reply answer(const web::Request& request);
  std::string greeting();  // the event that lists all runs

  // Reads on, and tells of runs that changed; `watched`: somebody reads events. Returns when to come again.
  std::chrono::milliseconds tick(bool watched, const std::function<void(const std::string&)>& tell);

 private:
  web::Reply answer_of_run(ShownRun& run, const web::Request& request);
  web::Reply curves(ShownRun& run, const web::Request& request) const;
  web::Reply prometheus();
  base::Json list() const;
  void know_runs();
  void refresh_list(const std::function<void(const std::string&)>& tell);

  RunList runs_;
  double next_list_ = 0, last_asked_ = 0;
};

}  // namespace hyperion::dash
