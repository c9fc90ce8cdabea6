#include "serve/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fstream>

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include "serve/http_server_state.h"

namespace rafter::serve {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// The inode of the socket that listens on a port, from the system's table; 0 if it is not there.
uint64_t listening_inode(uint16_t port) {
  constexpr int kListen = 0x0A;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      unsigned local_port = 0, state = 0;
      unsigned long long inode = 0;
      const int read =
          std::sscanf(line.c_str(), " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %llu",
                      &local_port, &state, &inode);
      if (read == 3 && local_port == port && state == kListen) return inode;
    }
  }
  return 0;
}

// " by python3 (process 123)"; empty if it cannot be known, as for another user's process.
std::string port_holder(uint16_t port) {
  const uint64_t inode = listening_inode(port);
  DIR* const processes = inode != 0 ? ::opendir("/proc") : nullptr;
  if (processes == nullptr) return "";
  const std::string wanted = fmt::format("socket:[{}]", inode);
  std::string holder;
  while (const dirent* process = ::readdir(processes)) {
    const std::string folder = fmt::format("/proc/{}/fd", process->d_name);
    if (process->d_name[0] < '1' || process->d_name[0] > '9') continue;
    DIR* const descriptors = ::opendir(folder.c_str());
    if (descriptors == nullptr) continue;
    while (const dirent* descriptor = ::readdir(descriptors)) {
      char target[64] = {};
      if (::readlink((folder + "/" + descriptor->d_name).c_str(), target, sizeof(target) - 1) > 0 &&
          wanted == target) {
        std::ifstream name_file(fmt::format("/proc/{}/comm", process->d_name));
        std::string name;
        std::getline(name_file, name);
        holder = fmt::format(" by {} (process {})", name, process->d_name);
      }
    }
    ::closedir(descriptors);
    if (!holder.empty()) break;
  }
  ::closedir(processes);
  return holder;
}

base::Error listen_error(const HttpOptions& options, const error_code& error) {
  const std::string where = fmt::format("{}:{}", options.host, options.port);
  if (error == asio::error::address_in_use) {
    return {base::ErrorCode::io, "the port is taken" + port_holder(options.port), where,
            "choose another with --port"};
  }
  return {base::ErrorCode::io, "cannot listen: " + error.message(), where, ""};
}

asio::awaitable<void> accept_loop(std::shared_ptr<HttpServer::State> server) {
  constexpr auto kPause = std::chrono::milliseconds(50);  // when the system is out of descriptors
  constexpr size_t kTold = 64;  // connections that are refused with an answer; a flood is not
  for (;;) {
    error_code error;
    tcp::socket socket =
        co_await server->acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!server->acceptor.is_open()) co_return;
    if (error) {
      asio::steady_timer pause(server->loop.context(), kPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (server->connections.size() >= server->options.limits.connections + kTold) continue;  // closed
    start_connection(server, std::move(socket));
  }
}

}  // namespace

void HttpServer::State::left(HttpConnection* connection) {
  connections.erase(connection);
  if (connections.empty() && on_drained) loop.post(std::exchange(on_drained, nullptr));
}

base::Status check_address(const std::string& host) {
  error_code error;
  if (host != "localhost") asio::ip::make_address(host, error);
  if (!error) return {};
  return base::Error{base::ErrorCode::invalid_argument, fmt::format("\"{}\" is no IP address", host),
                     "--host", "127.0.0.1 for this machine alone, 0.0.0.0 for every interface"};
}

HttpServer::HttpServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

base::Result<std::unique_ptr<HttpServer>> HttpServer::listen(EventLoop& loop, const HttpOptions& options,
                                                             HttpHandler handler) {
  RAFTER_TRY(check_address(options.host));
  error_code error;
  const auto address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  auto state = std::make_shared<State>(loop, options, std::move(handler));
  const tcp::endpoint endpoint(address, options.port);
  state->acceptor.open(endpoint.protocol(), error);
  if (!error) state->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) state->acceptor.bind(endpoint, error);
  if (!error) state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return listen_error(options, error);
  asio::co_spawn(loop.context(), accept_loop(state), asio::detached);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  error_code ignored;
  state_->acceptor.close(ignored);
  close_all();
}

uint16_t HttpServer::port() const {
  error_code ignored;
  return state_->acceptor.local_endpoint(ignored).port();
}

size_t HttpServer::connections() const { return state_->connections.size(); }

void HttpServer::drain(std::function<void()> done) {
  error_code ignored;
  state_->acceptor.close(ignored);
  state_->draining = true;
  state_->on_drained = std::move(done);
  const auto all = state_->connections;
  for (HttpConnection* connection : all) {
    if (state_->connections.contains(connection)) finish_connection(*connection);
  }
  if (state_->connections.empty() && state_->on_drained)
    state_->loop.post(std::exchange(state_->on_drained, nullptr));
}

void HttpServer::close_all() {
  const auto all = state_->connections;
  for (HttpConnection* connection : all) {
    if (state_->connections.contains(connection)) close_connection(*connection);
  }
}

}  // namespace rafter::serve
