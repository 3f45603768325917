// Comparator, FilterPolicy and Cache: the classes that LevelDB gives to programs beside databases.
// No database calls any of these. Made: which objects of these classes are the library's own.

#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "internals.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/filter_policy.h"

namespace leveldb {

namespace {

unsigned char ByteAt(const std::string& bytes, size_t n) { return static_cast<unsigned char>(bytes[n]); }

class OrderOfBytes final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "leveldb.BytewiseComparator"; }

  // The first byte that differs is raised by one, if it then stays below the limit's byte.
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    size_t n = 0;
    while (n < start->size() && n < limit.size() && (*start)[n] == limit[n]) n++;
    if (n >= start->size() || n >= limit.size()) return;
    if (ByteAt(*start, n) + 1 < static_cast<unsigned char>(limit[n])) {
      start->resize(n + 1);
      (*start)[n]++;
    }
  }

  // The first byte that can be raised is raised, and the bytes behind it are removed.
  void FindShortSuccessor(std::string* key) const override {
    for (size_t n = 0; n < key->size(); n++) {
      if (ByteAt(*key, n) != 0xff) {
        key->resize(n + 1);
        (*key)[n]++;
        return;
      }
    }
  }
};

// The places of a key are made from two halves of one hash: h, h + step, h + 2 step, ...
class BloomFilter final : public FilterPolicy {
 public:
  explicit BloomFilter(int bits_per_key) : bits_(bits_per_key < 1 ? 1 : bits_per_key) {
    Made::Add(static_cast<FilterPolicy*>(this), bits_per_key < 0 ? 0 : static_cast<uintptr_t>(bits_per_key));
    // ln 2 times the bits makes the fewest mistakes.
    probes_ = bits_ * 69 / 100;
    if (probes_ < 1) probes_ = 1;
    if (probes_ > kProbesMax) probes_ = kProbesMax;
  }
  ~BloomFilter() override { Made::Remove(static_cast<FilterPolicy*>(this)); }

  const char* Name() const override { return "evendb.BloomFilter"; }

  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    const size_t bytes = (static_cast<size_t>(n) * bits_ + 64 + 7) / 8;
    const size_t begin = dst->size();
    dst->resize(begin + bytes, 0);
    for (int i = 0; i < n; i++) {
      Probe probe(keys[i]);
      for (int k = 0; k < probes_; k++) {
        const size_t bit = probe.Next() % (bytes * 8);
        (*dst)[begin + bit / 8] |= static_cast<char>(1 << (bit % 8));
      }
    }
    dst->push_back(static_cast<char>(probes_));
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    if (filter.size() < 2) return false;
    const size_t bits = (filter.size() - 1) * 8;
    const int probes = filter[filter.size() - 1];
    // Another program made this filter: it says nothing.
    if (probes < 1 || probes > kProbesMax) return true;
    Probe probe(key);
    for (int k = 0; k < probes; k++) {
      const size_t bit = probe.Next() % bits;
      if ((filter[bit / 8] & (1 << (bit % 8))) == 0) return false;
    }
    return true;
  }

 private:
  static const int kProbesMax = 30;

  // FNV-1a. Its halves are the first place and the step.
  class Probe {
   public:
    explicit Probe(const Slice& key) {
      uint64_t hash = 14695981039346656037u;
      for (size_t n = 0; n < key.size(); n++) {
        hash = (hash ^ static_cast<unsigned char>(key[n])) * 1099511628211u;
      }
      at_ = static_cast<uint32_t>(hash);
      step_ = static_cast<uint32_t>(hash >> 32) | 1;
    }

    uint32_t Next() {
      const uint32_t place = at_;
      at_ += step_;
      return place;
    }

   private:
    uint32_t at_;
    uint32_t step_;
  };

  const size_t bits_;
  int probes_;
};

// An entry is cached, or in use, or both. When it is neither, it is deleted.
struct Entry : Cache::Handle {
  std::string key;
  void* value;
  size_t charge;
  void (*deleter)(const Slice& key, void* value);
  size_t uses = 0;
  bool is_cached = false;
  // The place among the unused entries, if it is cached and nobody uses it.
  std::list<Entry*>::iterator place;
};

// One lock guards everything; deleters are called without it.
class LruCache final : public Cache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) { Made::Add(static_cast<Cache*>(this), capacity); }

  ~LruCache() override {
    Made::Remove(static_cast<Cache*>(this));
    for (const auto& cached : by_key_) Delete(cached.second);
  }

  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice& key, void* value)) override {
    Entry* entry = new Entry;
    entry->key = key.ToString();
    entry->value = value;
    entry->charge = charge;
    entry->deleter = deleter;
    entry->uses = 1;
    std::vector<Entry*> gone;
    {
      const std::lock_guard<std::mutex> guard(lock_);
      TakeOut(entry->key, &gone);
      if (capacity_ > 0) {
        entry->is_cached = true;
        by_key_[entry->key] = entry;
        charge_ += charge;
      }
      while (charge_ > capacity_ && !unused_.empty()) TakeOut(unused_.front()->key, &gone);
    }
    for (Entry* each : gone) Delete(each);
    return entry;
  }

  Handle* Lookup(const Slice& key) override {
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = by_key_.find(key.ToString());
    if (found == by_key_.end()) return nullptr;
    Entry* entry = found->second;
    if (entry->uses++ == 0) unused_.erase(entry->place);
    return entry;
  }

  void Release(Handle* handle) override {
    Entry* entry = static_cast<Entry*>(handle);
    {
      const std::lock_guard<std::mutex> guard(lock_);
      if (--entry->uses > 0) return;
      if (entry->is_cached) {
        entry->place = unused_.insert(unused_.end(), entry);
        return;
      }
    }
    Delete(entry);
  }

  void* Value(Handle* handle) override { return static_cast<Entry*>(handle)->value; }

  void Erase(const Slice& key) override {
    std::vector<Entry*> gone;
    {
      const std::lock_guard<std::mutex> guard(lock_);
      TakeOut(key.ToString(), &gone);
    }
    for (Entry* each : gone) Delete(each);
  }

  uint64_t NewId() override {
    const std::lock_guard<std::mutex> guard(lock_);
    return ++last_id_;
  }

  void Prune() override {
    std::vector<Entry*> gone;
    {
      const std::lock_guard<std::mutex> guard(lock_);
      while (!unused_.empty()) TakeOut(unused_.front()->key, &gone);
    }
    for (Entry* each : gone) Delete(each);
  }

  size_t TotalCharge() const override {
    const std::lock_guard<std::mutex> guard(lock_);
    return charge_;
  }

 private:
  static void Delete(Entry* entry) {
    if (entry->deleter != nullptr) entry->deleter(entry->key, entry->value);
    delete entry;
  }

  // Takes an entry out of the cache, under the lock. An entry that nobody uses goes to `gone`.
  void TakeOut(const std::string& key, std::vector<Entry*>* gone) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return;
    Entry* entry = found->second;
    by_key_.erase(found);
    entry->is_cached = false;
    charge_ -= entry->charge;
    if (entry->uses == 0) {
      unused_.erase(entry->place);
      gone->push_back(entry);
    }
  }

  const size_t capacity_;
  mutable std::mutex lock_;
  std::unordered_map<std::string, Entry*> by_key_;
  // The entry that was not used for the longest time comes first.
  std::list<Entry*> unused_;
  size_t charge_ = 0;
  uint64_t last_id_ = 0;
};

struct MadeObjects {
  std::mutex lock;
  std::unordered_map<const void*, uintptr_t> numbers;
};

MadeObjects& TheMadeObjects() {
  // Never destroyed: objects that are destroyed at the end of the program remove themselves from it.
  static MadeObjects* const objects = new MadeObjects;
  return *objects;
}

}  // namespace

void Made::Add(const void* object, uintptr_t number) {
  const std::lock_guard<std::mutex> guard(TheMadeObjects().lock);
  TheMadeObjects().numbers[object] = number;
}

void Made::Remove(const void* object) {
  const std::lock_guard<std::mutex> guard(TheMadeObjects().lock);
  TheMadeObjects().numbers.erase(object);
}

bool Made::Find(const void* object, uintptr_t* number) {
  const std::lock_guard<std::mutex> guard(TheMadeObjects().lock);
  const auto found = TheMadeObjects().numbers.find(object);
  if (found == TheMadeObjects().numbers.end()) return false;
  *number = found->second;
  return true;
}

Comparator::~Comparator() = default;
FilterPolicy::~FilterPolicy() = default;
Cache::~Cache() = default;

const Comparator* BytewiseComparator() {
  // Never destroyed: objects that are destroyed at the end of the program may use it.
  static const Comparator* const order = new OrderOfBytes;
  return order;
}

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) { return new BloomFilter(bits_per_key); }

Cache* NewLRUCache(size_t capacity) { return new LruCache(capacity); }

}  // namespace leveldb
