#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/truncation_guard.h"
#include "cli/command_line.h"

namespace {

// A standard stream that is closed would give its number to the next file that is opened: weights would be
// read as questions, output would be written into the registry. What holds the number instead fails as a
// closed stream does.
void hold_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    (void)::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  rafter::base::install_truncation_guard();
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may grow no more is an error of write()
  return rafter::cli::run_command_line(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
