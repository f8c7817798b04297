// Checksums of a database's pages: SQLite itself believes whatever a page holds.  Private to hwdb.
//
// Every page of the file ends in eight bytes that hold the checksum of the others, which SQLite
// leaves free ("reserved space", byte 20 of the header; as its own extension cksumvfs does).  They
// are written and checked by a layer below SQLite (a "VFS" that passes all else on to the
// system's), so that whatever is read, a record, a key or an index, is what was written: a page
// that is not is SQLITE_IOERR_DATA.  Files of schemas before kFirstCheckedSchema have none and are
// read as they are.
//
// The checksum is FNV-1a over words of 64 bits, begun with the place of the page: a changed word
// always changes it, other changes but for one in 2^64.  Source: Fowler, Noll, Vo, Eastlake, "The
// FNV Non-Cryptographic Hash Algorithm", IETF draft-eastlake-fnv.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmsim::hwdb {

inline constexpr int kFirstCheckedSchema = 4;
inline constexpr int kChecksumBytes = 8;

// The name under which SQLite knows the layer, which is registered with it by the first call.
const char* checked_files();

// Whether the pages of a file have checksums; false where it is no database or cannot be read.
bool has_checksums(const std::string& path);

// The numbers, from 1, of the pages that are not as they were written; none without checksums.
std::vector<std::int64_t> damaged_pages(const std::string& path);

}  // namespace llmsim::hwdb
