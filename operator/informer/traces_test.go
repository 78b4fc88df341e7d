package informer_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/transcript"
)

// TestTraces runs the files in testdata/traces, in virtual time. A line that begins with "> " is a
// command; the lines up to the next command or comment are its result. The objects are pods, whose
// label v is their content. The revisions of a new server begin at 100.
//
//	> write a=1          create or update a pod through the informer's client
//	> other a=1          the same through another client; "other a" deletes it
//	> delete a           delete it through the informer's client
//	> read               all pods, as the informer's client reads them, with their revisions
//	> read a             one of them
//	> handled            the calls of a handler since the last command handled
//	> delay 60           watches deliver each event that many seconds late
//	> wait 60            as many seconds pass
//	> cut                the server ends all watches
//	> compact            … and has no history before now
//	> restore 50         … and loses all objects, as when a backup is restored; its revision is 50
func TestTraces(t *testing.T) {
	transcript.Run(t, func(t *testing.T, f transcript.File) {
		synctest.Test(t, func(t *testing.T) { f.Play(t, newPlayer(t).play) })
	})
}

// player runs the commands of a trace on a server with an informer.
type player struct {
	*fixture
	mu    sync.Mutex
	calls []string
}

func newPlayer(t *testing.T) *player {
	p := &player{fixture: newFixture(t)}
	p.run()
	p.handle(p.pods(), p)
	time.Sleep(time.Second) // virtual: the first list ends
	synctest.Wait()
	return p
}

func (p *player) OnAdd(obj client.Object, _ bool) { p.called("add %s", shown(obj)) }
func (p *player) OnUpdate(old, obj client.Object) {
	p.called("update %s, was %s", shown(obj), shown(old))
}
func (p *player) OnDelete(obj client.Object, stale bool) {
	if stale {
		p.called("delete %s, or a later state", shown(obj))
		return
	}
	p.called("delete %s", shown(obj))
}

func (p *player) called(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

// shown returns a pod's name, content and revision.
func shown(obj client.Object) string {
	return fmt.Sprintf("%s=%s@%s", obj.GetName(), obj.GetLabels()["v"], obj.GetResourceVersion())
}

func (p *player) play(words []string) string {
	defer synctest.Wait()
	argument := ""
	if len(words) > 1 {
		argument = words[1]
	}
	switch words[0] {
	case "write":
		return p.write(p.client, argument)
	case "other":
		return p.write(p.direct, argument)
	case "delete":
		return problem(p.client.Delete(p.ctx, pod(argument)))
	case "read":
		return p.read(argument)
	case "handled":
		p.mu.Lock()
		defer p.mu.Unlock()
		calls := p.calls
		p.calls = nil
		return lines(calls)
	case "delay":
		p.lag(p.seconds(argument))
	case "wait":
		time.Sleep(p.seconds(argument)) // virtual
	case "cut":
		p.server.CutWatches()
	case "compact":
		p.server.CutWatches()
		p.server.Compact()
	case "restore":
		revision, err := strconv.ParseUint(argument, 10, 64)
		p.must(err)
		p.server.SetRevision(revision)
	default:
		p.t.Fatalf("unknown command %q", words)
	}
	return ""
}

func (p *player) write(c client.Client, argument string) string {
	name, v, changes := strings.Cut(argument, "=")
	if !changes {
		return problem(c.Delete(p.ctx, pod(name)))
	}
	obj := labelled(pod(name), v)
	err := c.Create(p.ctx, obj)
	if apierrors.IsAlreadyExists(err) {
		err = c.Update(p.ctx, obj)
	}
	if err != nil {
		return problem(err)
	}
	return shown(obj) + "\n"
}

func (p *player) read(name string) string {
	began := time.Now()
	var all []string
	if name != "" {
		obj, err := client.Get[corev1.Pod](p.ctx, p.client, client.Key{Namespace: "default", Name: name})
		if err != nil {
			return problem(err)
		}
		all = append(all, shown(obj))
	} else {
		pods, err := client.List[corev1.Pod](p.ctx, p.client)
		if err != nil {
			return problem(err)
		}
		for _, obj := range pods {
			all = append(all, shown(obj))
		}
	}
	took := ""
	if d := time.Since(began); d > 0 {
		took = fmt.Sprintf("  (after %v)", d)
	}
	return strings.TrimSpace(strings.Join(all, " ")+took) + "\n"
}

func (p *player) seconds(text string) time.Duration {
	n, err := strconv.Atoi(text)
	p.must(err)
	return time.Duration(n) * time.Second
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("error: %v\n", err)
}

func lines(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}
