package reconcile

import (
	"strings"
	"testing"

	"kelson.dev/console/internal/traces"
	"kelson.dev/internal/require"
	"kelson.dev/lab/causes"
)

// A read is stale if a newer state had been written, or seen, before it began.
func TestStaleReads(t *testing.T) {
	const lines = `
{"id":1,"run":"other","time":"2026-11-01T10:00:00Z","controller":"w","kind":"Web","namespace":"a","name":"x","writes":[{"verb":"update","kind":"Pod","namespace":"a","name":"p","resourceVersion":"20","changed":true,"at":"1s","duration":"1s"}],"duration":"9s"}
{"id":2,"run":"other","time":"2026-11-01T10:00:03Z","controller":"w","kind":"Web","namespace":"a","name":"x","causes":[{"event":"update","kind":"Node","name":"n","resourceVersion":"30"}],"duration":"1s"}
{"id":1,"run":"own","time":"2026-11-01T10:00:00Z","controller":"c","kind":"Web","namespace":"a","name":"x","duration":"9s",
 "reads":[{"verb":"get","kind":"Pod","namespace":"a","name":"p","resourceVersion":"10","at":"1500ms","duration":"1ms"},
  {"verb":"get","kind":"Pod","namespace":"a","name":"p","resourceVersion":"9","at":"2500ms","duration":"1ms"},
  {"verb":"list","kind":"Pod","namespace":"a","resourceVersion":"19","count":1,"at":"2600ms","duration":"1ms"},
  {"verb":"list","kind":"Pod","namespace":"b","resourceVersion":"19","count":1,"at":"2700ms","duration":"1ms"},
  {"verb":"get","kind":"Pod","namespace":"a","name":"p","resourceVersion":"20","at":"2800ms","duration":"1ms"},
  {"verb":"get","kind":"Node","name":"n","resourceVersion":"29","at":"4s","duration":"1ms"},
  {"verb":"get","kind":"Secret","namespace":"a","name":"s","resourceVersion":"5","at":"5s","duration":"1ms"},
  {"verb":"list","kind":"Secret","resourceVersion":"5","count":2,"at":"7s","duration":"1ms"}],
 "logs":[{"at":"6s","level":"INFO","message":"hello"}],
 "writes":[{"verb":"update","kind":"Secret","namespace":"a","name":"s","changed":true,"error":"Operation cannot be fulfilled on secrets \"s\": the object has been modified; please apply your changes to the latest version and try again","at":"5500ms","duration":"1ms"},
  {"verb":"create","kind":"Secret","namespace":"a","name":"t","resourceVersion":"31","changed":true,"at":"5600ms","duration":"1ms"}]}
`
	all, err := causes.Read(strings.NewReader(strings.ReplaceAll(strings.TrimPrefix(lines, "\n"), "\n ", "")))
	require.NoError(t, err)
	got := ""
	for _, s := range steps(&traces.Traces{Trace: all}, all.Record("own", 1)) {
		switch {
		case s.Read != nil:
			got += s.Read.Verb + " " + s.Read.Kind + " " + s.Read.ResourceVersion
		case s.Write != nil:
			got += s.Write.Write.Verb
		case s.Log != nil:
			got += s.Log.Message
		}
		if s.Stale != nil {
			got += ": stale " + s.Stale.Version
			if s.Stale.Seen {
				got += " seen"
			}
			if s.Stale.Conflict {
				got += " conflict"
			}
		}
		got += "\n"
	}
	want := `get Pod 10
get Pod 9: stale 20
list Pod 19: stale 20
list Pod 19
get Pod 20
get Node 29: stale 30 seen
get Secret 5: stale  conflict
update
create
hello
list Secret 5
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
