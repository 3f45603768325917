package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The name of each kept history begins with its verdict.
func TestKeptHistoriesGetTheirVerdicts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.history")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		history, err := readFile(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		verdict := report(filepath.Base(path), history, time.Minute)
		expected := "linearizable"
		if strings.HasPrefix(filepath.Base(path), "not-linearizable-") {
			expected = "not-linearizable"
		}
		if verdict != expected {
			t.Errorf("%s: %s", path, verdict)
		}
	}
}

// A history is cut where one read of everything runs alone, and a part begins with what the one before ended with.
func TestHistoriesAreCutAtReadsOfEverything(t *testing.T) {
	text := "evendb-history 1\nkeys 70\n0 1 w3=1 w69=2\n2 3 r0=" + versions(70, map[int]string{3: "1", 69: "2"}) +
		"\n4 7 r0=" + versions(70, map[int]string{3: "1", 69: "2"}) + "\n5 6 r3=1\n8 9 w3=-\n"
	history, err := read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	parts := history.parts()
	if len(parts) != 2 || len(parts[0].operations) != 2 || len(parts[1].operations) != 3 {
		t.Fatalf("%v", parts)
	}
	start := parts[1].start
	if start.version(3) != 1 || start.version(69) != 2 || start.version(4) != absent {
		t.Fatalf("%v", start)
	}
	if result, _ := checkParts(parts, time.Minute); result != porcupine.Ok {
		t.Fatal(result)
	}
}

func versions(keys int, there map[int]string) string {
	list := make([]string, keys)
	for key := range list {
		list[key] = "-"
		if version, found := there[key]; found {
			list[key] = version
		}
	}
	return strings.Join(list, ",")
}

// States are equal by what they hold, however they came about, and never change.
func TestStatesAreValues(t *testing.T) {
	empty := newState(130)
	one := empty.with([]record{{1, 5}, {129, 6}})
	other := empty.with([]record{{129, 9}}).with([]record{{129, 6}}).with([]record{{1, 5}})
	if !one.equal(other) || one.equal(empty) || one.hash != other.hash {
		t.Error("not equal by what they hold")
	}
	if !one.with([]record{{1, absent}, {129, absent}}).equal(empty) || empty.version(1) != absent {
		t.Error("a deleted key, or a changed state")
	}
}

func TestWrongFilesAreRefused(t *testing.T) {
	for _, text := range []string{
		"",
		"evendb-history 2\nkeys 2\n",
		"evendb-history 1\nkeys 0\n",
		"evendb-history 1\nkeys 2\n0 1\n",
		"evendb-history 1\nkeys 2\n1 1 r0=1\n",
		"evendb-history 1\nkeys 2\n0 1 r2=1\n",
		"evendb-history 1\nkeys 2\n0 1 r0=1,1,1\n",
		"evendb-history 1\nkeys 2\n0 1 r0=0\n",
		"evendb-history 1\nkeys 2\n0 1 x0=1\n",
		"evendb-history 1\nkeys 2\n0 1 r0\n",
		"evendb-history 1\nkeys 2\n2 3 r0=-\n0 1 r0=-\n",
		"evendb-history 1\nkeys 2\n0 2 r0=-\n1 2 r0=-\n",
		"evendb-history 1\nkeys 2\n0 1 w0=1\n2 3 w0=1\n",
	} {
		if history, err := read(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read: %v", text, history)
		}
	}
}
