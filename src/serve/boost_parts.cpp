// The parts of Asio and Beast that need not be compiled into every file that uses them.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
