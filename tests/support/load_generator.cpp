#include "tests/support/load_generator.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "tests/support/wire_server.h"

namespace rafter::testing {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr double kPatience = 60;  // seconds without a byte of an answer
constexpr double kLastWords = 5;  // seconds for streams to end before they are cancelled

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What is sent, and how its answer is to end.
struct LoadRequest {
  enum class Kind { stream, slow, malformed };
  Kind kind = Kind::stream;
  std::string bytes;
  std::string last;            // of a complete stream
  int64_t cancel_after = -1;   // bytes of the answer; −1: not
  bool may_be_silent = false;  // malformed so that the server waits for more
};

class Requests {
 public:
  explicit Requests(unsigned seed) : random_(seed) {}

  LoadRequest stream(bool cancels) {
    LoadRequest request;
    const int tokens = 8 + below(72);
    const std::string question =
        fmt::format("Question {}: {}", below(50), std::string(static_cast<size_t>(below(400)), 'a'));
    json body = {{"max_tokens", tokens}, {"stream", true}, {"temperature", below(2)}, {"seed", below(1000)}};
    const json messages = {{{"role", "system"}, {"content", "You are brief."}},
                           {{"role", "user"}, {"content", question}}};
    std::string path = "/v1/chat/completions";
    request.last = "data: [DONE]\n\n";
    switch (below(5)) {
      case 0:
        path = "/v1/completions";
        body["prompt"] = question;
        break;
      case 1:
        path = "/v1/messages";
        request.last = "\"message_stop\"";
        body["messages"] = {{{"role", "user"}, {"content", question}}};
        break;
      case 2:
        path = "/api/chat";
        request.last = "\"done\":true";
        body["messages"] = messages;
        body["options"] = {{"num_predict", tokens}};
        break;
      default:
        body["messages"] = messages;
    }
    request.bytes = request_text("POST", path, body.dump(), {}, /*keep_alive=*/false);
    if (cancels) request.cancel_after = below(4000);
    return request;
  }

  LoadRequest slow() {
    LoadRequest request = stream(below(2) == 0);
    request.kind = LoadRequest::Kind::slow;
    return request;
  }

  LoadRequest malformed() {
    LoadRequest request;
    request.kind = LoadRequest::Kind::malformed;
    const std::string path = below(2) == 0 ? "/v1/chat/completions" : "/v1/messages";
    const auto post = [&](const std::string& body) { return request_text("POST", path, body, {}, false); };
    switch (below(12)) {
      case 0:
        request.bytes = post("{\"messages\": [");
        break;
      case 1:
        request.bytes = post(R"({"messages": 5, "max_tokens": "many"})");
        break;
      case 2:
        request.bytes = post(std::string(200'000, '['));
        break;
      case 3:
        request.bytes =
            "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
        break;
      case 4:
        request.bytes = "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n";
        break;
      case 5:
        request.bytes = "\x16\x03\x01\x02 no HTTP\r\n\r\n";
        break;
      case 6:
        request.bytes = post("").insert(post("").find("\r\n"), "\r\nContent-Length: -7");
        break;
      case 7:
        request.bytes = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"mess";
        request.may_be_silent = true;
        break;
      case 8:
        request.bytes = "GET /v1/mod";
        request.may_be_silent = true;
        break;
      case 9:
        request.bytes = request_text("GET", "/none/such", "", {}, false);
        break;
      case 10: {
        std::string noise(static_cast<size_t>(1 + below(2000)), '\0');
        for (char& byte : noise) byte = static_cast<char>(random_());
        request.bytes = post(noise);
        break;
      }
      default:
        request.bytes = post(R"({"prompt": ")" + std::string(300'000, 'x') + "\"}");
    }
    return request;
  }

  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

 private:
  std::mt19937 random_;
};

int connect_to(uint16_t port, int receive_buffer = 0) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RAFTER_CHECK(socket >= 0, "out of descriptors");
  if (receive_buffer > 0)
    ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket);
    return -1;
  }
  ::fcntl(socket, F_SETFL, O_NONBLOCK);
  return socket;
}

// One client at a time, request after request.
class Slot {
 public:
  Slot(uint16_t port, LoadReport& report) : port_(port), report_(report) {}
  ~Slot() { hang_up(); }
  Slot(const Slot&) = delete;

  bool is_busy() const { return socket_ >= 0; }

  void begin(LoadRequest request) {
    request_ = std::move(request);
    const bool is_slow = request_.kind == LoadRequest::Kind::slow;
    socket_ = connect_to(port_, is_slow ? 4096 : 0);
    answer_.clear();
    sent_ = 0;
    read_ = 0;
    begun_ = next_read_ = last_byte_ = Clock::now();
    if (socket_ < 0) fault(report_.unanswered, "no connection");
  }

  pollfd wanted() const {
    const bool waits = Clock::now() < next_read_;
    const int events = (sent_ < request_.bytes.size() ? POLLOUT : 0) | (waits ? 0 : POLLIN);
    return {socket_, static_cast<int16_t>(events), 0};
  }

  void advance(int16_t events) {
    if ((events & POLLOUT) != 0) write();
    if (is_busy() && (events & (POLLIN | POLLHUP | POLLERR)) != 0) read();
    if (!is_busy()) return;
    const double seconds = seconds_since(begun_);
    if (request_.may_be_silent && seconds > 1) {
      ++report_.malformed;
      return hang_up();
    }
    if (seconds_since(last_byte_) > kPatience) fault(report_.unanswered, "no answer, or no end of it");
  }

  void cancel() {
    count_status();
    ++report_.cancelled;
    hang_up();
  }

 private:
  void write() {
    const ssize_t count =
        ::send(socket_, request_.bytes.data() + sent_, request_.bytes.size() - sent_, MSG_NOSIGNAL);
    if (count > 0) sent_ += static_cast<size_t>(count);
    // The server need not read what it refuses.
    if (count < 0 && errno != EAGAIN) sent_ = request_.bytes.size();
  }

  void read() {
    const bool is_slow = request_.kind == LoadRequest::Kind::slow;
    char buffer[65536];
    const ssize_t count = ::recv(socket_, buffer, is_slow ? 300 : sizeof(buffer), 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return end();
    if (is_slow) next_read_ = Clock::now() + std::chrono::milliseconds(100);
    last_byte_ = Clock::now();
    read_ += count;
    report_.generated_bytes += count;
    answer_.append(buffer, static_cast<size_t>(count));
    constexpr size_t kKept = 4096;  // the beginning and the end are looked at
    if (answer_.size() > 3 * kKept) answer_.erase(kKept, answer_.size() - 2 * kKept);
    if (request_.cancel_after >= 0 && read_ > request_.cancel_after) cancel();
  }

  // The server closed the connection.
  void end() {
    const int status = count_status();
    switch (request_.kind) {
      case LoadRequest::Kind::malformed:
        ++report_.malformed;
        if (status == 200) fault(report_.broken, "a malformed request was answered");
        break;
      case LoadRequest::Kind::slow:
        ++report_.slow;  // it may be given up
        break;
      case LoadRequest::Kind::stream:
        ++report_.streams;
        if (status == 429) break;
        if (answer_.find(request_.last) == std::string::npos ||
            answer_.find("\"error\"") != std::string::npos)
          fault(report_.broken, "a broken stream");
    }
    hang_up();
  }

  int count_status() {
    const int status = answer_.starts_with("HTTP/1.1 ") ? std::atoi(answer_.c_str() + 9) : 0;
    if (status != 0) ++report_.answers[status];
    if (status >= 500) note("a server error");
    return status;
  }

  void fault(int64_t& count, const char* what) {
    ++count;
    note(what);
    hang_up();
  }

  void note(const char* what) {
    if (!report_.first_fault.empty()) return;
    report_.first_fault =
        fmt::format("{} after {:.2f} s, asked {} answered {} … {}", what, seconds_since(begun_),
                    request_.bytes.substr(0, 300), answer_.substr(0, 300),
                    answer_.size() > 300 ? answer_.substr(answer_.size() - 300) : "");
  }

  void hang_up() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  const uint16_t port_;
  LoadReport& report_;
  LoadRequest request_;
  std::string answer_;
  int socket_ = -1;
  size_t sent_ = 0;
  int64_t read_ = 0;
  Clock::time_point begun_, next_read_, last_byte_;
};

int64_t resident_bytes(pid_t process) {
  int64_t size = 0, resident = 0;
  std::ifstream(fmt::format("/proc/{}/statm", process)) >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Asks /health all the time, and reads the processes' memory once a second.
class Watcher {
 public:
  Watcher(const LoadPlan& plan, LoadReport& report)
      : plan_(plan), report_(report), begin_(Clock::now()), thread_([this] { run(); }) {}
  ~Watcher() {
    ends_ = true;
    thread_.join();
  }

 private:
  void run() {
    constexpr auto kPeriod = std::chrono::milliseconds(10);
    auto client = std::make_unique<WireClient>(plan_.port);
    double next_sample = 0;
    while (!ends_) {
      const auto asked = Clock::now();
      client->send(request_text("GET", "/health"));
      if (client->read_reply().status == 200) {
        report_.health_ms.push_back(1000 * seconds_since(asked));
      } else {
        ++report_.health_failures;
        client = std::make_unique<WireClient>(plan_.port);
      }
      if (const double now = seconds_since(begin_); now >= next_sample) {
        report_.memory.push_back({now, resident_bytes(plan_.front), resident_bytes(plan_.worker)});
        next_sample = now + 1;
      }
      std::this_thread::sleep_until(asked + kPeriod);
    }
  }

  const LoadPlan& plan_;
  LoadReport& report_;
  const Clock::time_point begin_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

class Generator {
 public:
  Generator(const LoadPlan& plan, LoadReport& report) : plan_(plan), requests_(plan.seed) {
    for (int i = 0; i < plan.streams + plan.slow_readers + plan.malformed; ++i)
      slots_.push_back(std::make_unique<Slot>(plan.port, report));
  }

  void run_blocking() {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 10);
    const auto begin = Clock::now();
    std::vector<pollfd> sockets;
    std::vector<Slot*> polled;
    for (;;) {
      const double now = seconds_since(begin);
      const bool ends = now >= plan_.seconds;
      sockets.clear();
      polled.clear();
      for (size_t i = 0; i < slots_.size(); ++i) {
        Slot& slot = *slots_[i];
        if (!slot.is_busy() && !ends) slot.begin(next(static_cast<int>(i)));
        if (slot.is_busy() && now >= plan_.seconds + kLastWords) slot.cancel();
        if (!slot.is_busy()) continue;
        sockets.push_back(slot.wanted());
        polled.push_back(&slot);
      }
      if (sockets.empty() && ends) return;
      ::poll(sockets.data(), sockets.size(), 20);
      for (size_t i = 0; i < sockets.size(); ++i) polled[i]->advance(sockets[i].revents);
    }
  }

 private:
  LoadRequest next(int slot) {
    if (slot < plan_.streams) return requests_.stream(requests_.below(4) == 0);
    return slot < plan_.streams + plan_.slow_readers ? requests_.slow() : requests_.malformed();
  }

  const LoadPlan& plan_;
  Requests requests_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

// Waits until the server has nothing left to do, ten seconds at most, and reads its figures.
void read_ending(const LoadPlan& plan, LoadReport& report) {
  for (int i = 0; i < 100; ++i) {
    const json stats = json::parse(request(plan.port, "GET", "/stats").body, nullptr, false);
    if (stats.is_object()) {
      report.active = stats["engine"]["active_requests"];
      report.queued = stats["engine"]["queued"];
      report.restarts = stats["engine"]["restarts"];
      report.open_streams = stats["http"]["open_streams"];
      report.cache_bytes = stats["prompt_cache"]["bytes"];
      report.prefix_bytes = stats["prompt_cache"]["prefix_bytes"];
      if (report.active + report.queued + report.open_streams == 0 &&
          report.cache_bytes == report.prefix_bytes)
        return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// How many of them still get an answer.
int64_t ask_all(const std::vector<std::unique_ptr<WireClient>>& clients) {
  int64_t answered = 0;
  for (const auto& client : clients) {
    client->send(request_text("GET", "/health"));
    if (client->read_reply().status == 200) ++answered;
  }
  return answered;
}

}  // namespace

LoadReport run_load_blocking(const LoadPlan& plan) {
  LoadReport report;
  std::vector<std::unique_ptr<WireClient>> idle;
  for (int i = 0; i < plan.idle; ++i) idle.push_back(std::make_unique<WireClient>(plan.port));
  report.idle_connections = plan.idle;
  const auto begin = Clock::now();
  {
    const Watcher watcher(plan, report);
    std::thread generator([&] { Generator(plan, report).run_blocking(); });
    // In the middle, too: the server closes a connection that says nothing for ten minutes.
    std::this_thread::sleep_for(std::chrono::duration<double>(plan.seconds / 2));
    ask_all(idle);
    generator.join();
    report.seconds = seconds_since(begin);
  }
  report.idle_answered = ask_all(idle);
  idle.clear();
  read_ending(plan, report);
  return report;
}

}  // namespace rafter::testing
