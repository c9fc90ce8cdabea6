#include <cstdio>

#include "base/version.h"

int main() { std::printf("rafter %s\n", rafter::base::version()); }
