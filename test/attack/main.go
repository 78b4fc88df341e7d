// Command attack runs bounded attacks of one client against a control plane, and measures the
// effects on other clients. It attacks kelson serve and, if it is built, kube-apiserver with etcd,
// on loopback addresses only:
//
//	make attack
//	go run ./test/attack -kelson bin/kelson -only expanding -sides kelson -seconds 5
//
// Every attack gets a new server, and takes these steps:
//
//  1. The administrator prepares the objects that the attack needs (attack.setup).
//  2. A tenant works in its own namespace, and a prober requests /readyz: the baseline.
//  3. The attack runs in its own process, at a lower priority, because real attackers use the
//     processors of other machines. The tenant and the prober continue.
//  4. The attacker ends, and the server idles for a minute while other servers are attacked. Then
//     its memory and processor time are measured again, and it ends.
//
// The program exits with status 1 if kelson misses a criterion of criteria.go. With -docs it writes
// the table of docs/reference/security.md. Every loop of an attack is bounded in count and time,
// and the program ends servers that use more than -guard bytes of memory.
//
// # Adding an attack
//
// Write a function that attacks a target until its context ends, or until it has sent a stated
// number of requests. Add it to the list in attacks.go with a short name, a description that
// completes the table's first column, and its preparation. A target has an HTTP client per user
// (target.client), and connections that misuse HTTP/2 (target.dial). Count responses with
// target.count: the report shows the counts, as evidence that the attack reached the server. Try it
// with -only NAME -seconds 5.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	kelson, peers, docs, only, sides string
	seconds, baseline, after         int
	nice                             int
	guard                            int64 // bytes of memory
	logs, scratch, profiles          string
}

func main() {
	var o options
	var name string
	var t target
	flag.StringVar(&o.kelson, "kelson", "bin/kelson", "the kelson binary")
	flag.StringVar(&o.peers, "peers", "bin/peers",
		"folder with etcd and kube-apiserver; without them, only kelson is attacked")
	flag.StringVar(&o.docs, "docs", "", "page whose table is written")
	flag.StringVar(&o.only, "only", "", "names of attacks, comma-separated; default: all")
	flag.StringVar(&o.sides, "sides", "kelson,kube-apiserver", "which servers are attacked")
	flag.IntVar(&o.seconds, "seconds", 12, "duration of an attack")
	flag.IntVar(&o.baseline, "baseline", 3, "seconds of the tenant's requests before an attack")
	flag.IntVar(&o.after, "after", 60, "seconds between the end of an attack and the last measurement")
	flag.Int64Var(&o.guard, "guard", 6<<30, "bytes of memory at which a server ends")
	flag.IntVar(&o.nice, "nice", 10, "niceness of attackers, from 0 to 19")
	flag.StringVar(&o.profiles, "profiles", "",
		"folder for a profile and an execution trace of kelson during each attack")
	flag.StringVar(&o.logs, "logs", "", "folder that keeps the servers' logs")
	flag.StringVar(&o.scratch, "scratch", memoryFolder(),
		"folder for the servers' states: in memory, so that other users of a disk don't change the tenant's times")
	flag.StringVar(&name, "assault", "", "run one attack, in a process of its own (used by the program itself)")
	flag.StringVar(&t.addr, "addr", "", "with -assault: the server's address")
	flag.StringVar(&t.keys, "keys", "", "with -assault: folder with the users' keys")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if name != "" {
		err = assault(ctx, name, &t, time.Duration(o.seconds)*time.Second)
	} else {
		err = o.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		stop()
		os.Exit(1)
	}
}

// memoryFolder returns a folder of a file system in memory, or "" for the folder of temporary
// files.
func memoryFolder() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

// most is the maximum duration of the program: attacks on kube-apiserver that would exceed it are
// skipped.
const most = 10 * time.Minute

// each is the time from the start of an attack to its last measurement, with a slow start of the
// server.
func (o *options) each() time.Duration {
	return time.Duration(o.baseline+o.seconds+o.after)*time.Second + 20*time.Second
}

// run attacks the sides one after the other, kelson first, so that work which continues after an
// attack does not slow the other side.
func (o *options) run(ctx context.Context) (err error) {
	begin := time.Now()
	if o.scratch, err = os.MkdirTemp(o.scratch, "kelson-attack-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.scratch)
	if err := writeKeys(o.scratch); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	chosen, err := o.attacks()
	if err != nil {
		return err
	}
	r := &report{load: loadAverage()}
	var idling sync.WaitGroup
	for _, s := range o.chosenSides(r) {
		for _, a := range chosen {
			if s == peer && (a.fills || a.control) {
				continue
			}
			if s == peer && time.Since(begin)+o.each() > most {
				r.skipped = append(r.skipped, fmt.Sprintf("%s on %s", a.name, s))
				continue
			}
			if err = o.measure(ctx, s, a, r.add(a, s), &idling); err != nil {
				if why := (*skipped)(nil); errors.As(err, &why) {
					r.all = r.all[:len(r.all)-1]
					r.impossible = append(r.impossible, fmt.Sprintf("%s on %s: %v", a.name, s, why))
					err = nil
					continue
				}
				err = fmt.Errorf("%s against %s: %w", a.name, s, err)
				break
			}
		}
		if err != nil {
			break
		}
	}
	idling.Wait()
	r.took = time.Since(begin)
	r.seconds, r.after = o.seconds, o.after
	missed := r.missed()
	r.print(os.Stdout, missed)
	if err == nil && o.docs != "" {
		err = r.writeDocs(o.docs, missed)
	}
	if err == nil && len(missed) > 0 {
		err = fmt.Errorf("%d criteria missed", len(missed))
	}
	return err
}

// attacks returns the attacks that -only names.
func (o *options) attacks() ([]attack, error) {
	if o.only == "" {
		return attacks, nil
	}
	var chosen []attack
	for name := range strings.SplitSeq(o.only, ",") {
		i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no attack %q", name)
		}
		chosen = append(chosen, attacks[i])
	}
	return chosen, nil
}

// measure runs one attack against a new server of a side. When measure returns, the server idles;
// idling waits for its last measurement.
func (o *options) measure(ctx context.Context, s side, a attack, m *measurement, idling *sync.WaitGroup) (err error) {
	srv, err := o.start(ctx, s, a.fills)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			srv.stop()
		}
	}()
	if a.setup != nil {
		if err := a.setup(ctx, srv.target); err != nil {
			return fmt.Errorf("setup: %w", err)
		}
	}
	tenant, err := newTenant(ctx, srv.target)
	if err != nil {
		return err
	}
	tenant.work(ctx, time.Second) // opens connections and fills caches
	baseline, _ := tenant.work(ctx, time.Duration(o.baseline)*time.Second)
	if baseline.failed > 0 {
		return fmt.Errorf("%d of %d requests failed before the attack: %s", baseline.failed, baseline.requests(),
			baseline.example)
	}
	before, err := srv.usage()
	if err != nil {
		return err
	}
	tenant.reads = a.fills
	m.baseline, m.before = baseline.p99(), before.memory

	watching := srv.watch(o.guard)
	attacker, err := o.startAssault(srv, a)
	if err != nil {
		return err
	}
	o.profile(ctx, srv, a)
	during, probes := tenant.work(ctx, time.Duration(o.seconds)*time.Second)
	m.note, err = attacker.end()
	m.worst, m.busiest, m.guarded = watching.end()
	if err != nil {
		return err
	}
	m.tenant, m.probes = during, probes
	if a.fills {
		took, answer, err := srv.returnSpace(ctx)
		if err != nil {
			m.lost = err
		}
		n, err := srv.complete(ctx)
		m.lost = errors.Join(m.lost, err)
		m.note += fmt.Sprintf("; writes again %s after space returned, %d acknowledged objects; while full: %s",
			short(took), n, answer)
	}
	fmt.Printf("%-14s %-14s %s\n", a.name, s, m.summary())
	idling.Go(func() {
		defer srv.stop()
		if m.guarded {
			return
		}
		watching := srv.watch(o.guard)
		var lost error
		m.after, m.afterCPU, lost = srv.idle(ctx, time.Duration(o.after)*time.Second)
		_, _, m.guarded = watching.end()
		if a.fills {
			lost = errors.Join(lost, srv.survives(ctx))
		}
		m.lost = errors.Join(m.lost, lost)
	})
	return errors.Join(ctx.Err())
}
