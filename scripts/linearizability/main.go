// Judges recorded histories by porcupine, a checker of linearizability that is not ours.
//
//	linearizability [-expect VERDICT] [-timeout SECONDS] FILE...
//
// VERDICT is "linearizable" (the default), "not-linearizable" or "unknown". The form of a file is described in
// store/evendb/tests/common/history_file.rs. Exit status: 0 if every file has the expected verdict, 1 if one has another, 2 if a
// file or an argument is wrong.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

var verdicts = map[porcupine.CheckResult]string{
	porcupine.Ok:      "linearizable",
	porcupine.Illegal: "not-linearizable",
	porcupine.Unknown: "unknown",
}

func main() {
	expected := flag.String("expect", "linearizable", "the verdict that each file should get")
	seconds := flag.Float64("timeout", 120, "after how many seconds a part of a history is unknown")
	flag.Parse()
	timeout := time.Duration(*seconds * float64(time.Second))
	if flag.NArg() == 0 || timeout <= 0 || !isVerdict(*expected) {
		flag.Usage()
		os.Exit(2)
	}
	total, wrong := 0, 0
	began := time.Now()
	for _, path := range flag.Args() {
		history, err := readFile(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(2)
		}
		verdict := report(filepath.Base(path), history, timeout)
		total += len(history.operations)
		if verdict != *expected {
			wrong++
		}
	}
	fmt.Printf("%d histories, %d operations, %.1f s: %d not as expected (%s)\n",
		flag.NArg(), total, time.Since(began).Seconds(), wrong, *expected)
	if wrong > 0 {
		os.Exit(1)
	}
}

func isVerdict(name string) bool {
	for _, verdict := range verdicts {
		if verdict == name {
			return true
		}
	}
	return false
}

// Judges one history and says what came of it.
func report(name string, history *history, timeout time.Duration) string {
	began := time.Now()
	parts := history.parts()
	result, at := checkParts(parts, timeout)
	fmt.Printf("%s: %s; %d operations, %d of them beside others, %d parts, %.1f s\n", name, verdicts[result],
		len(history.operations), history.beside(), len(parts), time.Since(began).Seconds())
	if result == porcupine.Illegal {
		fmt.Printf("  in the part of %d operations up to moment %d; among the first that have no moment:\n",
			len(at.operations), at.operations[len(at.operations)-1].end)
		for _, stuck := range at.stuck(timeout) {
			fmt.Printf("  %s\n", stuck)
		}
	}
	return verdicts[result]
}
