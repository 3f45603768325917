// An order of keys. A database is opened only with the order of the bytes.

#ifndef EVENDB_LEVELDB_COMPARATOR_H_
#define EVENDB_LEVELDB_COMPARATOR_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT Comparator {
 public:
  virtual ~Comparator();

  // Below, at or above 0 if `a` is below, equal to or above `b`.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;
  virtual const char* Name() const = 0;
  // Makes `start` shorter, if it then stays below `limit` and does not fall below its old value.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;
  // Makes `key` shorter, if it then does not fall below its old value.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// The order of the bytes. It must not be destroyed.
LEVELDB_EXPORT const Comparator* BytewiseComparator();

}  // namespace leveldb

#endif
