// A program in C++: handles in unique_ptr, a scan by a buffer, a transaction that is tried again.
#include <evendb.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

void check(evendb_status status, evendb_error *error) {
    if (status != EVENDB_OK) {
        std::fprintf(stderr, "%s: %s\n", evendb_status_name(status), evendb_error_message(error));
        evendb_error_free(error);
        std::exit(1);
    }
}

using Db = std::unique_ptr<evendb_db, decltype(&evendb_free)>;
using Keyspace = std::unique_ptr<evendb_keyspace, decltype(&evendb_keyspace_free)>;
using Transaction = std::unique_ptr<evendb_transaction, decltype(&evendb_transaction_free)>;
using Value = std::unique_ptr<evendb_value, decltype(&evendb_value_free)>;

}  // namespace

int main(int count, char **arguments) {
    if (count != 3) return 1;
    evendb_error *error;
    evendb_options *options;
    check(evendb_options_create(&options, &error), error);
    check(evendb_options_set(options, "layout", arguments[2], &error), error);
    evendb_db *opened;
    check(evendb_open(arguments[1], options, &opened, &error), error);
    Db db(opened, evendb_free);
    evendb_options_free(options);
    evendb_keyspace *default_keyspace;
    check(evendb_default_keyspace(db.get(), &default_keyspace, &error), error);
    Keyspace keyspace(default_keyspace, evendb_keyspace_free);

    for (int round = 0; round < 3; round++) {
        evendb_transaction *begun;
        check(evendb_transaction_begin(db.get(), &begun, &error), error);
        Transaction transaction(begun, evendb_transaction_free);
        evendb_value *found;
        check(evendb_transaction_get(begun, keyspace.get(), "n", 1, &found, &error), error);
        Value value(found, evendb_value_free);
        std::string text(evendb_value_size(found), 0);
        if (found) text.assign(static_cast<const char *>(evendb_value_data(found)), text.size());
        text += "x";
        check(evendb_transaction_put(begun, keyspace.get(), "n", 1, text.data(), text.size(), &error), error);
        check(evendb_transaction_commit(begun, &error), error);
    }
    evendb_value *found;
    check(evendb_get(keyspace.get(), "n", 1, &found, &error), error);
    Value value(found, evendb_value_free);
    if (evendb_value_size(found) != 3) return 2;
    check(evendb_close(db.get(), &error), error);
    std::puts("all of it");
    return 0;
}
