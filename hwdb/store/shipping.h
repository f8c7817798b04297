// The schema of the database and the rows that the program ships.  Private to hwdb.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "hwdb/store/database.h"
#include "hwdb/store/sqlite.h"

namespace llmsim::hwdb {

inline constexpr int kApplicationId = 0x6c6d7369;  // "lmsi", in the file's header
inline constexpr int kSchemaVersion = 4;

// Gives a file of a schema before kFirstCheckedSchema the place for its pages' checksums.  Outside
// of a transaction, before ship().
void make_place_for_checksums(const sqlite::Connection& connection);

// Creates the tables where there are none, brings those of an older schema to this one
// with the user's rows, and replaces all shipped rows by the facts of this program.  Call
// it in a transaction.
void ship(const sqlite::Connection& connection);

// Whether the file holds the facts of this program, or facts of a later date.
bool is_current(const sqlite::Connection& connection);

// Each adds one row.  The fields that the tables have as columns are taken from the record.
void insert_hardware(const sqlite::Connection& connection, HardwareKind kind,
                     const nlohmann::json& record, Origin origin);
void insert_coefficient(const sqlite::Connection& connection, const Coefficient& coefficient);
void insert_measurement(const sqlite::Connection& connection, const Measurement& measurement);

}  // namespace llmsim::hwdb
