// WriteBatch: the bytes of its writes, one behind the other.
//
//   8 bytes      0, where LevelDB's log has a sequence number
//   4 bytes      how many writes, the lowest byte first
//   each write   1 and two pieces (a put: key, value), or 0 and one piece (a delete: key)
//   each piece   its length in groups of seven bits, the lowest first, the eighth bit set in all
//                groups but the last; then its bytes
//
// A program copies a batch without asking the library, so everything is in the one string.

#include <cassert>

#include "internals.h"
#include "leveldb/slice.h"

namespace leveldb {

namespace {

const size_t kCountAt = 8;
const size_t kWritesAt = 12;

const char kDelete = 0;
const char kPut = 1;

uint32_t CountOf(const std::string& bytes) {
  uint32_t count = 0;
  for (size_t n = 4; n-- > 0;) count = count << 8 | static_cast<unsigned char>(bytes[kCountAt + n]);
  return count;
}

void SetCount(std::string* bytes, uint32_t count) {
  for (size_t n = 0; n < 4; n++) (*bytes)[kCountAt + n] = static_cast<char>(count >> (8 * n));
}

void AddPiece(std::string* bytes, const Slice& piece) {
  size_t length = piece.size();
  for (; length >= 0x80; length >>= 7) bytes->push_back(static_cast<char>(length | 0x80));
  bytes->push_back(static_cast<char>(length));
  bytes->append(piece.data(), piece.size());
}

// Takes a piece from the front of the bytes; false if they are too few.
bool TakePiece(Slice* bytes, Slice* piece) {
  uint64_t length = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (bytes->empty()) return false;
    const unsigned char group = static_cast<unsigned char>((*bytes)[0]);
    bytes->remove_prefix(1);
    length |= static_cast<uint64_t>(group & 0x7f) << shift;
    if (group < 0x80) {
      if (length > bytes->size()) return false;
      *piece = Slice(bytes->data(), length);
      bytes->remove_prefix(length);
      return true;
    }
  }
  return false;
}

Status Broken(const char* what) { return Status::Corruption("the bytes of a batch of writes", what); }

}  // namespace

WriteBatch::Handler::~Handler() = default;

WriteBatch::WriteBatch() { Clear(); }

WriteBatch::~WriteBatch() = default;

void WriteBatch::Clear() { bytes_.assign(kWritesAt, 0); }

void WriteBatch::Put(const Slice& key, const Slice& value) {
  SetCount(&bytes_, CountOf(bytes_) + 1);
  bytes_.push_back(kPut);
  AddPiece(&bytes_, key);
  AddPiece(&bytes_, value);
}

void WriteBatch::Delete(const Slice& key) {
  SetCount(&bytes_, CountOf(bytes_) + 1);
  bytes_.push_back(kDelete);
  AddPiece(&bytes_, key);
}

size_t WriteBatch::ApproximateSize() const { return bytes_.size(); }

// The source may be this batch.
void WriteBatch::Append(const WriteBatch& source) {
  const uint32_t count = CountOf(bytes_) + CountOf(source.bytes_);
  bytes_.append(source.bytes_, kWritesAt, std::string::npos);
  SetCount(&bytes_, count);
}

Status WriteBatch::Iterate(Handler* handler) const {
  if (bytes_.size() < kWritesAt) return Broken("they are too few");
  Slice rest(bytes_.data() + kWritesAt, bytes_.size() - kWritesAt);
  uint32_t found = 0;
  while (!rest.empty()) {
    const char kind = rest[0];
    rest.remove_prefix(1);
    Slice key;
    Slice value;
    if (kind != kPut && kind != kDelete) return Broken("a write is neither a put nor a delete");
    if (!TakePiece(&rest, &key)) return Broken("a key is cut off");
    if (kind == kPut && !TakePiece(&rest, &value)) return Broken("a value is cut off");
    found++;
    if (kind == kPut) {
      handler->Put(key, value);
    } else {
      handler->Delete(key);
    }
  }
  return found == CountOf(bytes_) ? Status::OK() : Broken("there are not as many writes as they say");
}

}  // namespace leveldb
