#include "sim/base/error.h"

namespace llmsim {

std::string Error::printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool begins_c1 = byte == 0xc2 && i + 1 < text.size() &&
                           static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                           static_cast<unsigned char>(text[i + 1]) < 0xa0;  // U+0080 to U+009F
    if (byte == '\n' || byte == '\t')
      text[i] = ' ';
    else if (byte < 0x20 || byte == 0x7f)
      text[i] = '?';
    else if (begins_c1)
      text[i] = text[i + 1] = '?';
  }
  return text;
}

}  // namespace llmsim
