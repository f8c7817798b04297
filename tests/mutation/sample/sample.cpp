#include "tests/mutation/sample/sample.h"

bool is_large(int x) { return x > 10; }

int halvings(int n) {
  int count = 0;
  while (n > 1) {
    n /= 2;
    ++count;
  }
  return count;
}

double never_called(double x) { return x + 1.5; }
