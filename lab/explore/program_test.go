package explore_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/agent"
	"kelson.dev/lab/agent/inside"
	"kelson.dev/lab/explore"
)

// calling says which services an operator calls.
type calling string

const (
	callingNone calling = ""
	callingHTTP calling = "http"
	callingGRPC calling = "grpc"
)

// builtProgram returns the file of the operator in testdata/program, which the first test builds.
func builtProgram(t *testing.T, services calling) string {
	t.Helper()
	require.Long(t, "compiles a program")
	file, err := builds[services]()
	require.NoError(t, err)
	return file
}

var builds = map[calling]func() (string, error){
	callingNone: sync.OnceValues(func() (string, error) { return buildProgram(callingNone) }),
	callingHTTP: sync.OnceValues(func() (string, error) { return buildProgram(callingHTTP) }),
	callingGRPC: sync.OnceValues(func() (string, error) { return buildProgram(callingGRPC) }),
}

// built is the folder of these programs; see TestMain.
var built string

func buildProgram(services calling) (string, error) {
	file := filepath.Join(built, fmt.Sprint("operator-", services))
	// The agent's folder is the same in all runs, so its package is compiled once.
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := agent.Program{Dir: "testdata/program", Services: services != callingNone,
		Shared: filepath.Join(cache, "kelson", "builds")}
	if services == callingGRPC {
		program.Tags = "grpc"
	}
	return file, program.Build(context.Background(), filepath.Join(built, fmt.Sprint("overlay-", services)), file)
}

// virtualProgram is the scenario of an operator without dependencies, in virtual time.
func virtualProgram(t *testing.T, env ...string) explore.Scenario {
	t.Helper()
	file := builtProgram(t, callingNone)
	web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"web": "yes"}}}
	return explore.Scenario{Program: &explore.Binary{Path: file, Env: env},
		Inputs: []explore.Input{explore.Create(web)}}
}

// An operator in a process of its own runs in virtual time. A kill loses all its memory. Its ports
// can be reached. Connections to other systems and starts of programs fail and are reported.
func TestProgram(t *testing.T) {
	report, err := explore.Explore(t, virtualProgram(t),
		explore.Options{For: time.Hour, OneFault: true, UntilAlarm: true})
	require.NoError(t, err)
	if len(report.Alarms) != 1 || !strings.Contains(report.Alarms[0].String(),
		"secrets default/web-cert: is missing") || report.Unequal > 0 {
		t.Errorf("%v: %v, want the alarm of the missing Secret", report.Summary(), report.Alarms)
	}
	want := []string{"192.0.2.1:443", "telemetry.example.com:80", "the program true"}
	for i, e := range report.External {
		if len(report.External) != len(want) || e.Address != want[i] || e.Allowed || e.Attempts <= report.Plans {
			t.Errorf("connections to other systems, and other programs: %+v, want %q, refused in each run", e, want)
		}
	}
	if text := report.Summary(); !strings.Contains(text, "and failed: 192.0.2.1:443 (") {
		t.Errorf("%s: want how often the operator has tried to connect", text)
	}
}

// The correct operator has no alarms, and equal plans have equal histories, even if it uses random
// numbers. Renewals of its Lease reach the control plane when another process reads it.
func TestProgramRepeats(t *testing.T) {
	s := virtualProgram(t, "CORRECT=yes", "LEASE=yes", "RANDOM=yes")
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Plans: 20})
	if err != nil || len(report.Alarms) > 0 {
		t.Fatalf("%v, %v", report.Alarms, err)
	}
	for _, plan := range []string{"", "kill-after create secrets default/web-key #1; order 7",
		"two-leaders create secrets default/web-cert #1"} {
		repetition, err := explore.Repeat(t, s, plan, runs(t))
		if err != nil || repetition.Unequal > 0 {
			t.Errorf("%v, %v: want equal histories", repetition, err)
		}
	}
}

// A call of os.Exit ends the process, and is an alarm.
func TestProgramExits(t *testing.T) {
	_, err := explore.Explore(t, virtualProgram(t, "EXIT=yes"), explore.Options{For: time.Hour, OneFault: true})
	assert.ErrorContainsf(t, err, "exit status 3", "want the exit code")
}

// An operator may start the programs and reach the addresses that are allowed, and the report
// counts these attempts, too.
func TestProgramStartsAllowed(t *testing.T) {
	_, err := explore.Explore(t, virtualProgram(t, inside.AllowVariable+"=example.org,true"),
		explore.Options{For: time.Hour, OneFault: true})
	assert.ErrorContainsf(t, err, "the operator starts another program", "want that the program runs")
	local, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer local.Close()
	report, err := explore.Explore(t, virtualProgram(t, inside.AllowVariable+"=127.0.0.1",
		"SERVICE="+local.Addr().String()), explore.Options{For: time.Hour, OneFault: true, Plans: 1})
	if err != nil || !strings.Contains(report.Summary(),
		"as --allow permits: "+local.Addr().String()+" (") {
		t.Errorf("%v, %s, want the connections to %s", err, report.Summary(), local.Addr())
	}
}
