// What tests/mutation/check changes; the test beside it notices some of the changes.
#pragma once

bool is_large(int x);
int halvings(int n);
double never_called(double x);
