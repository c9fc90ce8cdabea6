#include "serve/model_service.h"

namespace rafter::serve {

const char* service_state_name(ServiceState state) {
  switch (state) {
    case ServiceState::loading:
      return "loading";
    case ServiceState::ready:
      return "ready";
    case ServiceState::restarting:
      return "restarting";
    case ServiceState::failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace rafter::serve
