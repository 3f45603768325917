// A program as it is compiled with LevelDB's own headers. It says that it has been started before
// it calls the library.

#include <cstdio>

#include "leveldb/db.h"

int main() {
  std::printf("started\n");
  std::fflush(stdout);
  leveldb::DB* database = nullptr;
  const leveldb::Status opened = leveldb::DB::Open(leveldb::Options(), "nowhere", &database);
  std::printf("%s\n", opened.ToString().c_str());
  return 0;
}
