// What the runs of a site say of a layout, in rows "layout/..." of the site (site.h), which
// calibrate/site_fit.h fits.
//
// What the site's step misses of a layout x is normal, with k of sim/strategy/layout_errors.h,
//
//   mean       sum_i w_i k(x, x_i)
//   variance   k(x, x) + 2 sum_i b_i k(x, x_i) + sum_ij M_ij k(x, x_i) k(x, x_j)
//
// x_i layouts of its runs.  b is what the step of its cell (or of the site, of a run in none) has
// in common with them, so that the variance is that which a layout adds to the step's: below 0
// where both are known better together.
//
//   layout/errors.KEY             numbers of k, by their keys
//   layout/I/log2.AXIS            of x_i, I from 0
//   layout/I/RECOMPUTE/SHARDING   w_i; how x_i recomputes and shards
//   layout/I/M.J                  M_ij, J up to I
//   layout/I/b.CELL               b_i, by the key of the cell; b alone: in no cell
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hwdb/store/database.h"
#include "sim/run.h"
#include "sim/strategy/layout_errors.h"

namespace llmsim::hwdb {

struct SiteLayouts {
  sim::LayoutErrors errors;
  std::vector<sim::LayoutPoint> points;                // x
  std::vector<double> weights;                         // w
  std::vector<std::vector<double>> squares;            // M, its lower triangle by row
  std::map<std::string, std::vector<double>> in_cell;  // b, by the key of a cell; "": in none

  double mean(const sim::LayoutPoint& x) const;
  // A cell that it does not have shares nothing.
  double variance(const sim::LayoutPoint& x, const std::string& cell) const;
};

sim::LayoutPoint layout_of(const sim::Run& run);

// One number and its key, of the rows above.
struct SiteLayoutNumber {
  std::string key;
  double value = 0.0;
};
std::vector<SiteLayoutNumber> numbers_of(const SiteLayouts& layouts);

// Puts a number where it belongs; of a key that a later version writes nothing.
void put(const SiteLayoutNumber& number, SiteLayouts& layouts);

// After all numbers: those that are missing are 0.
void complete(SiteLayouts& layouts);

}  // namespace llmsim::hwdb
