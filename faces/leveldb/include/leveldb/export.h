/* The names of the library that a program sees: all names that the headers declare. */

#ifndef EVENDB_LEVELDB_EXPORT_H_
#define EVENDB_LEVELDB_EXPORT_H_

#ifndef LEVELDB_EXPORT
#if defined(__GNUC__)
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#else
#define LEVELDB_EXPORT
#endif
#endif

#endif
