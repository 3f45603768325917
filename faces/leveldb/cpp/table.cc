// Table, TableBuilder and DumpFile: files of LevelDB's own format, which this library neither reads
// nor writes. Programs that use them find the functions, and hear that they are not supported.

#include "leveldb/dumpfile.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"

namespace leveldb {

namespace {

Status NotLevelDbs(const char* what) {
  return Status::NotSupported(what, "EvenDB neither reads nor writes the files of LevelDB's own format");
}

}  // namespace

Status Table::Open(const Options&, RandomAccessFile*, uint64_t, Table** table) {
  *table = nullptr;
  return NotLevelDbs("Table");
}

Table::~Table() = default;

Iterator* Table::NewIterator(const ReadOptions&) const { return NewErrorIterator(NotLevelDbs("Table")); }

uint64_t Table::ApproximateOffsetOf(const Slice&) const { return 0; }

TableBuilder::TableBuilder(const Options&, WritableFile*) {}
TableBuilder::~TableBuilder() = default;

Status TableBuilder::ChangeOptions(const Options&) { return status(); }
void TableBuilder::Add(const Slice&, const Slice&) {}
void TableBuilder::Flush() {}
Status TableBuilder::status() const { return NotLevelDbs("TableBuilder"); }
Status TableBuilder::Finish() { return status(); }
void TableBuilder::Abandon() {}
uint64_t TableBuilder::NumEntries() const { return 0; }
uint64_t TableBuilder::FileSize() const { return 0; }

Status DumpFile(Env*, const std::string& fname, WritableFile*) { return NotLevelDbs(fname.c_str()); }

}  // namespace leveldb
