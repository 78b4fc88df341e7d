package disk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

const (
	crashDir   = "KELSON_TEST_CRASH_DIR" // set in the process to be killed
	crashRound = "KELSON_TEST_CRASH_ROUND"

	// crashCheckpoint is the minimum size of the logs for a checkpoint: so small that some
	// processes are killed during one.
	crashCheckpoint = 10_000

	crashWriters = 8
	crashKeys    = 4 // per writer
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		writeUntilKilled(dir, os.Getenv(crashRound))
		return
	}
	os.Exit(m.Run())
}

func crashKey(writer, n int, half string) store.Key {
	return store.Key{Resource: "things", Namespace: fmt.Sprint("w", writer), Name: fmt.Sprint(n, half)}
}

const deleted = "-"

// crashPayload returns the payload that a writer's i-th write of a round stores.
func crashPayload(round any, i int) string {
	if i%7 == 6 {
		return deleted
	}
	return fmt.Sprintf("%v.%d", round, i)
}

// writeUntilKilled lets every writer change pairs of objects, each pair as one unit, and print what
// was acknowledged.
func writeUntilKilled(dir, round string) {
	s, err := openWith(dir, disk.Options{CheckpointBytes: crashCheckpoint})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("open", s.Snapshot().Revision())
	var mu sync.Mutex
	var writers sync.WaitGroup
	for w := range crashWriters {
		writers.Go(func() {
			for i := 0; ; i++ {
				n, payload := i%crashKeys, crashPayload(round, i)
				ops := make([]store.Op, 2)
				for j, half := range []string{"a", "b"} {
					ops[j] = store.Op{Key: crashKey(w, n, half), Expect: store.AnyRevision}
					if payload != deleted {
						ops[j].Data = fmt.Appendf(nil, `{"metadata":{},"payload":%q,"padding":"%s"}`, payload,
							strings.Repeat("x", i%1000))
					}
				}
				objs, err := s.Commit(context.Background(), ops...)
				if errors.Is(err, store.ErrNotFound) {
					continue // nothing to delete
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Println(w, n, i, payload, objs[1].Revision)
				mu.Unlock()
			}
		})
	}
	writers.Wait()
}

func openStore(dir string) (*store.Store, error) { return openWith(dir, disk.Options{}) }

func openWith(dir string, opts disk.Options) (*store.Store, error) {
	b, err := disk.OpenWith(dir, opts)
	if err != nil {
		return nil, err
	}
	return store.Open(store.Config{Backend: b})
}

// acknowledged is the last acknowledged write of a pair.
type acknowledged struct {
	round, i int
	payload  string
	revision uint64
}

// next returns the payload of the writer's next write of pair n, which may be stored although it
// was not acknowledged.
func (a acknowledged) next(round, n int) string {
	i := a.i + crashKeys
	if a.round != round {
		i = n
	}
	for a.payload == deleted && crashPayload(round, i) == deleted {
		i += crashKeys
	}
	return crashPayload(round, i)
}

// Processes are killed at random instants: while they start, write, and write checkpoints.
// Everything that they acknowledged is stored, no unit is stored in part, no revision is assigned
// twice, and watches continue or get an error.
func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	rounds := storetest.Rounds(t, 25)
	seed := randomtest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	acks := map[[2]int]acknowledged{}
	var newest uint64
	assigned := map[uint64]int{} // revision → round
	early, unfinished := 0, 0
	for round := range rounds {
		starting := random.IntN(8) == 0
		after := time.Duration(random.Int64N(int64(40 * time.Millisecond)))
		lines := writeAndKill(t, dir, round, starting, after)
		if len(lines) == 0 {
			early++
		}
		seen := newest // the newest revision that a watching client has seen
		for i, line := range lines {
			var start uint64
			if _, err := fmt.Sscanf(line, "open %d", &start); i == 0 {
				if err != nil || start < newest {
					t.Fatalf("round %d: %q after revision %d", round, line, newest)
				}
				continue
			}
			var w, n int
			a := acknowledged{round: round}
			_, err := fmt.Sscan(line, &w, &n, &a.i, &a.payload, &a.revision)
			require.NoErrorf(t, err, "%q", line)
			for _, revision := range []uint64{a.revision - 1, a.revision} {
				if other, twice := assigned[revision]; twice || revision <= newest {
					t.Errorf("round %d: revision %d was acknowledged after %d, and in round %d", round, revision,
						newest, other)
				}
				assigned[revision] = round
			}
			acks[[2]int{w, n}] = a
			seen = max(seen, a.revision)
		}
		newest = seen
		if left, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(left) > 0 {
			unfinished++
		}
		s, err := openStore(dir)
		require.NoErrorf(t, err, "round %d: open after the kill", round)
		sn := s.Snapshot()
		if sn.Revision() < newest {
			t.Errorf("round %d: the revision went back to %d, acknowledged was %d", round, sn.Revision(), newest)
		}
		storetest.Check(t, sn)
		checkResume(t, round, s, newest)
		for pair, want := range acks {
			acks[pair] = checkPair(t, round, sn, pair, want)
		}
		newest = sn.Revision()
		require.NoError(t, s.Close())
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills: %d of them before there was a store, %d during a checkpoint; %d revisions, %d units acknowledged",
		rounds, early,
		unfinished, newest, len(assigned)/2)
	if len(acks) == 0 {
		t.Error("nothing was ever acknowledged")
	}
}

// checkResume resumes the watch of a client after the last revision that it had seen when the
// process was killed.
func checkResume(t *testing.T, round int, s *store.Store, after uint64) {
	t.Helper()
	cursor, err := s.Watch("things", after)
	// A client that has seen nothing may watch from the start of an empty store.
	if now := s.Snapshot().Revision(); after < now && (after > 0 || err != nil) {
		if !errors.Is(err, store.ErrCompacted) {
			t.Errorf("round %d: a watch after %d of a store that starts at %d: %v", round, after, now, err)
		}
		return
	}
	require.NoErrorf(t, err, "round %d: a watch after %d of a store that starts there", round, after)
	if events, revision, err := cursor.Next(); len(events) > 0 || revision < after || err != nil {
		t.Errorf("round %d: a watch after %d: %d events until %d, %v", round, after, len(events), revision, err)
	}
}

// checkPair accepts the acknowledged write or the writer's next one, and returns the stored one.
func checkPair(t *testing.T, round int, sn *store.Snapshot, pair [2]int, want acknowledged) acknowledged {
	t.Helper()
	var got [2]string
	var revision uint64
	for i, half := range []string{"a", "b"} {
		got[i] = deleted
		if obj := sn.Get(crashKey(pair[0], pair[1], half)); obj != nil {
			var content struct{ Payload string }
			if err := json.Unmarshal(obj.Data, &content); err != nil {
				t.Error(err)
			}
			got[i], revision = content.Payload, obj.Revision
		}
	}
	next := want.next(round, pair[1])
	switch {
	case got[0] != got[1]:
		t.Errorf("round %d: half of a unit survived: %q", round, got)
	case got[0] == want.payload && (got[0] == deleted || revision == want.revision):
	case got[0] == next && (got[0] == deleted || revision > want.revision):
	default:
		t.Errorf("round %d: pair %v is %q of revision %d, acknowledged was %+v, then came %q", round, pair, got[0],
			revision, want, next)
	}
	return acknowledged{round: round, payload: got[0], revision: revision}
}

// writeAndKill runs writers in another process and returns its output. It kills the process some
// time after its start (starting), or after it has opened the store.
func writeAndKill(t *testing.T, dir string, round int, starting bool, after time.Duration) (lines []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=none")
	cmd.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("%s=%d", crashRound, round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	if starting {
		time.AfterFunc(after, func() { cmd.Process.Kill() })
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // a line without a newline is an incomplete acknowledgement
		}
		require.NoError(t, err)
		if lines = append(lines, strings.TrimSuffix(line, "\n")); len(lines) == 1 && !starting {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
	}
	cmd.Wait() // returns that the process was killed
	if len(lines) == 0 && !starting {
		t.Fatal("the writing process ended by itself")
	}
	return lines
}
