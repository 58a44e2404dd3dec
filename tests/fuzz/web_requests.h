// Requests to the live page, good ones and what they may be broken with.
#pragma once
#include <string>
#include <vector>

namespace hyperion::testing {

inline std::vector<std::string> good_requests(const std::string& token) {
  const std::string end = " HTTP/1.1\r\nHost: 127.0.0.1:7007\r\n",
                    bearer = "Authorization: Bearer " + token + "\r\n\r\n";
  std::vector<std::string> requests;
  for (const char* target : {"/", "/app.js", "/api/runs", "/api/run/a", "/api/run/a/curves?width=50&from=1&to=9",
                             "/metrics", "/api/run/a/curves?generation=1&since=2&evaluations=0", "/api/run/a/ranks",
                             "/events", "/api/run/a/log?rank=0", "/api/run/a%20b/answers", "/files/run/a/report.html"})
    requests.push_back("GET " + std::string(target) + end + bearer);
  requests.push_back("GET /?token=" + token + end + "Cookie: a=b; hyperion_7007=" + token +
                     "\r\nConnection: keep-alive\r\n\r\n");
  requests.push_back("POST /api/runs" + end + "Content-Length: 5\r\n" + bearer + "hello");
  requests.push_back("POST /api/runs" + end + "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n" + bearer +
                     "5\r\nhello\r\n0\r\n\r\n");
  return requests;
}

inline std::vector<std::string> request_words() {
  return {"\r\n",
          "\n",
          "\r",
          "\r\n\r\n",
          std::string(1, '\0'),
          "%00",
          "%",
          "%2e%2e%2f",
          "../",
          "//",
          "http://evil/",
          "?",
          "&",
          "=",
          ";",
          "#",
          "HTTP/1.0",
          "HTTP/2.0",
          "HTTP/9999999999.1",
          "HEAD ",
          "CONNECT ",
          "OPTIONS ",
          "TRACE ",
          "GET ",
          "Host: evil\r\n",
          "Host:",
          "Content-Length: 18446744073709551616\r\n",
          "Content-Length: -1\r\n",
          "Content-Length: 4\r\n",
          "Transfer-Encoding: chunked\r\n",
          "Connection: close\r\n",
          "Upgrade: h2c\r\n",
          "Expect: 100-continue\r\n",
          "Cookie: ",
          " folded\r\n",
          "ffffffffffffffff\r\n",
          "rank=-1",
          "rank=99999999999999999999",
          "width=0",
          "since=-1",
          std::string(9000, 'a'),
          std::string(300, '/'),
          "\xff\xfe",
          "[::1]"};
}

}  // namespace hyperion::testing
