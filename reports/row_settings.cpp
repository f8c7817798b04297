#include "reports/row_settings.h"

#include <algorithm>
#include <map>

#include "sim/base/error.h"

namespace llmsim::reports {
namespace {

std::map<std::vector<std::string>, Rows> alike(const DataRows& data, const Rows& rows,
                                               const std::vector<std::string>& keys) {
  std::map<std::vector<std::string>, Rows> groups;
  for (const std::size_t row : rows) groups[texts_of(data, row, keys)].push_back(row);
  return groups;
}

}  // namespace

std::set<std::string> texts_of(const DataRows& data, const Rows& rows, const std::string& key) {
  std::set<std::string> texts;
  for (const std::size_t row : rows) texts.insert(data.text(row, key));
  return texts;
}

std::vector<std::string> texts_of(const DataRows& data, std::size_t row,
                                  const std::vector<std::string>& keys) {
  std::vector<std::string> texts;
  for (const std::string& key : keys) texts.push_back(data.text(row, key));
  return texts;
}

std::vector<std::string> settings_that_vary(const DataRows& data, const Rows& rows) {
  std::vector<std::string> settings;
  for (const std::string& key : data.keys) {
    if (key == kFirstFigure) break;
    if (texts_of(data, rows, key).size() > 1) settings.push_back(key);
  }
  return settings;
}

std::vector<std::string> settings_between(const DataRows& data, const Rows& rows,
                                          const std::vector<std::string>& known) {
  std::vector<std::string> keys = known, added;
  for (const std::string& key : settings_that_vary(data, rows)) {
    const auto groups = alike(data, rows, keys);
    if (std::ranges::any_of(groups, [&](const auto& group) {
          return texts_of(data, group.second, key).size() > 1;
        }))
      keys.push_back(key), added.push_back(key);
  }
  return added;
}

std::string described(const DataRows& data, std::size_t row, const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys)
    text += (text.empty() ? "" : ", ") + key + " " + data.text(row, key);
  return text;
}

void require_one_row(const DataRows& data, const Rows& rows, const std::vector<std::string>& keys) {
  for (const auto& [texts, group] : alike(data, rows, keys)) {
    if (group.size() == 1) continue;
    const std::vector<std::string> between = settings_between(data, group, keys);
    throw Error(
        std::to_string(group.size()) + " rows have " + described(data, group.front(), keys) +
        (between.empty() ? "" : " and differ in " + between.front()) + "; --where chooses rows" +
        (between.empty() ? ""
                         : ", as in --where " + between.front() + "=" +
                               data.text(group.front(), between.front())));
  }
}

}  // namespace llmsim::reports
