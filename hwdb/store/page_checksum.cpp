#include "hwdb/store/page_checksum.h"

#include <sqlite3.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <new>

#include "hwdb/store/shipping.h"

namespace llmsim::hwdb {
namespace {

constexpr int kHeaderBytes = 100;
constexpr std::uint64_t kBasis = 0xcbf29ce484222325u, kPrime = 0x100000001b3u;

// The layer's file: the system's own follows it in memory.
struct CheckedFile {
  sqlite3_file base;
  bool is_database, is_checked;

  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

CheckedFile& of(sqlite3_file* file) { return *reinterpret_cast<CheckedFile*>(file); }
sqlite3_file* real(sqlite3_file* file) { return of(file).real(); }

// `at`: the first byte of the page in the file.
std::uint64_t checksum(const unsigned char* page, int size, sqlite3_int64 at) {
  std::uint64_t sum = kBasis ^ static_cast<std::uint64_t>(at);
  for (int i = 0; i < size - kChecksumBytes; i += kChecksumBytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, page + i, sizeof word);
    sum = (sum ^ word) * kPrime;
  }
  return sum;
}

bool is_as_written(const unsigned char* page, int size, sqlite3_int64 at) {
  std::uint64_t written = 0;
  std::memcpy(&written, page + size - kChecksumBytes, sizeof written);
  return written == checksum(page, size, at);
}

int big_endian(const unsigned char* bytes) {
  return static_cast<int>(std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
                          std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]});
}

// Either sign is enough, so that no flipped bit of the header turns the checks off.
bool says_checked(const unsigned char* header) {
  return header[20] == kChecksumBytes || (big_endian(header + 68) == kApplicationId &&
                                          big_endian(header + 60) >= kFirstCheckedSchema);
}

// SQLite reads and writes pages whole, and beside them only small parts of the header.
bool is_page(int size) { return size >= 512 && std::has_single_bit(static_cast<unsigned>(size)); }

int read(sqlite3_file* file, void* bytes, int size, sqlite3_int64 at) {
  const int code = real(file)->pMethods->xRead(real(file), bytes, size, at);
  if (code != SQLITE_OK || !of(file).is_database) return code;
  const auto* page = static_cast<const unsigned char*>(bytes);
  if (at == 0 && size >= kHeaderBytes) of(file).is_checked = says_checked(page);
  const bool damaged = of(file).is_checked && is_page(size) && !is_as_written(page, size, at);
  return damaged ? SQLITE_IOERR_DATA : SQLITE_OK;
}

int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) {
  const auto* page = static_cast<const unsigned char*>(bytes);
  if (of(file).is_database && at == 0 && size >= kHeaderBytes)
    of(file).is_checked = says_checked(page);
  if (!of(file).is_database || !of(file).is_checked || !is_page(size))
    return real(file)->pMethods->xWrite(real(file), bytes, size, at);
  std::vector<unsigned char> signed_page(page, page + size);
  const std::uint64_t sum = checksum(page, size, at);
  std::memcpy(signed_page.data() + size - kChecksumBytes, &sum, sizeof sum);
  return real(file)->pMethods->xWrite(real(file), signed_page.data(), size, at);
}

// Version 1 of the methods: without shared memory and mapped pages, which would pass the checks.
constexpr sqlite3_io_methods kMethods{
    .iVersion = 1,
    .xClose = [](sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); },
    .xRead = read,
    .xWrite = write,
    .xTruncate = [](sqlite3_file* f,
                    sqlite3_int64 size) { return real(f)->pMethods->xTruncate(real(f), size); },
    .xSync = [](sqlite3_file* f, int flags) { return real(f)->pMethods->xSync(real(f), flags); },
    .xFileSize = [](sqlite3_file* f,
                    sqlite3_int64* size) { return real(f)->pMethods->xFileSize(real(f), size); },
    .xLock = [](sqlite3_file* f, int lock) { return real(f)->pMethods->xLock(real(f), lock); },
    .xUnlock = [](sqlite3_file* f, int lock) { return real(f)->pMethods->xUnlock(real(f), lock); },
    .xCheckReservedLock =
        [](sqlite3_file* f, int* held) {
          return real(f)->pMethods->xCheckReservedLock(real(f), held);
        },
    .xFileControl =
        [](sqlite3_file* f, int what, void* value) {
          return real(f)->pMethods->xFileControl(real(f), what, value);
        },
    .xSectorSize = [](sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); },
    .xDeviceCharacteristics =
        [](sqlite3_file* f) { return real(f)->pMethods->xDeviceCharacteristics(real(f)); },
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr};

sqlite3_vfs* system_of(sqlite3_vfs* layer) { return static_cast<sqlite3_vfs*>(layer->pAppData); }

int open(sqlite3_vfs* layer, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  sqlite3_vfs* const system = system_of(layer);
  auto* const checked = new (file) CheckedFile{};
  checked->is_database = (flags & SQLITE_OPEN_MAIN_DB) != 0;
  const int code = system->xOpen(system, name, checked->real(), flags, out_flags);
  checked->base.pMethods = checked->real()->pMethods ? &kMethods : nullptr;
  return code;
}

sqlite3_vfs layer_over(sqlite3_vfs* system) {
  sqlite3_vfs layer = *system;  // what takes no file is the system's own
  layer.iVersion = 1;
  layer.szOsFile = static_cast<int>(sizeof(CheckedFile)) + system->szOsFile;
  layer.zName = "llmsim-checked";
  layer.pNext = nullptr;
  layer.pAppData = system;
  layer.xOpen = open;
  layer.xDelete = [](sqlite3_vfs* v, const char* name, int sync) {
    return system_of(v)->xDelete(system_of(v), name, sync);
  };
  layer.xAccess = [](sqlite3_vfs* v, const char* name, int flags, int* out) {
    return system_of(v)->xAccess(system_of(v), name, flags, out);
  };
  layer.xFullPathname = [](sqlite3_vfs* v, const char* name, int size, char* out) {
    return system_of(v)->xFullPathname(system_of(v), name, size, out);
  };
  return layer;
}

// Page by page of a file with checksums.
template <class Look>
void look_at_pages(const std::string& path, Look look) {
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> page(kHeaderBytes);
  stream.read(page.data(), kHeaderBytes);
  const auto* header = reinterpret_cast<const unsigned char*>(page.data());
  if (!stream || std::memcmp(header, "SQLite format 3", 16) != 0 || !says_checked(header)) return;
  const int size = header[16] << 8 | header[17];
  if (!is_page(size)) return;
  page.resize(static_cast<std::size_t>(size));
  stream.seekg(0);
  for (sqlite3_int64 at = 0; stream.read(page.data(), size); at += size)
    look(reinterpret_cast<const unsigned char*>(page.data()), size, at);
}

}  // namespace

const char* checked_files() {
  static sqlite3_vfs layer = layer_over(sqlite3_vfs_find(nullptr));
  static const int registered = sqlite3_vfs_register(&layer, 0);
  return registered == SQLITE_OK ? layer.zName : nullptr;
}

bool has_checksums(const std::string& path) {
  bool has = false;
  look_at_pages(path, [&](const unsigned char*, int, sqlite3_int64) { has = true; });
  return has;
}

std::vector<std::int64_t> damaged_pages(const std::string& path) {
  std::vector<std::int64_t> damaged;
  look_at_pages(path, [&](const unsigned char* page, int size, sqlite3_int64 at) {
    // SQLite leaves pages that it never used as the system made them.
    const bool unused =
        std::all_of(page, page + size, [](unsigned char byte) { return byte == 0; });
    if (!unused && !is_as_written(page, size, at)) damaged.push_back(at / size + 1);
  });
  return damaged;
}

}  // namespace llmsim::hwdb
