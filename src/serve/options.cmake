# Asio and Beast are compiled once, in boost_parts.cpp. Every file that includes them must be told.
target_compile_definitions(rafter_serve PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION
                                               BOOST_ASIO_NO_DEPRECATED)
