package simulated

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/kubernetes/node"
)

func specOf(policy corev1.RestartPolicy, annotations map[string]string, command ...string) node.ContainerSpec {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u", Annotations: annotations},
		Spec: corev1.PodSpec{RestartPolicy: policy,
			Containers: []corev1.Container{{Name: "app", Image: "busybox"}}},
	}
	return node.ContainerSpec{Pod: pod, Container: &pod.Spec.Containers[0], Command: command,
		Env: []corev1.EnvVar{{Name: "WHO", Value: "you"}}}
}

// Each pod of a cluster with 150,000 pods gets its own address. A network without free addresses is
// an error.
func TestManyAddresses(t *testing.T) {
	addresses := func(r *Runtime, pods int) (map[string]bool, error) {
		all := map[string]bool{}
		for i := range pods {
			s, err := r.Sandbox(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}})
			if err != nil {
				return all, err
			}
			all[s.IP()] = true
		}
		return all, nil
	}
	if all, err := addresses(New(Config{}), 150_000); err != nil || len(all) != 150_000 {
		t.Errorf("%d addresses, %v", len(all), err)
	}
	small := New(Config{PodNetwork: netip.MustParsePrefix("10.0.0.0/29")})
	if all, err := addresses(small, 8); err == nil || len(all) != 7 {
		t.Errorf("%d addresses, %v", len(all), err)
	}
}

// The command and the annotations determine how long a simulated container runs, its exit code and
// its log. Invalid annotations are errors.
func TestScript(t *testing.T) {
	for _, test := range []struct {
		policy      corev1.RestartPolicy
		annotations map[string]string
		command     string // at most three words, separated by "|"
		attempt     int32
		want        string
	}{
		{policy: "Always", want: "forever 0"},
		{policy: "Never", want: "1s 0"},
		{policy: "OnFailure", command: "/manager|--flag", want: "1s 0"},
		{policy: "Always", command: "/manager", want: "forever 0"},
		{policy: "Always", command: "echo|hello|you", want: "0s 0 [0s hello you]"},
		{policy: "Never", command: "sleep|1.5", want: "1.5s 0"},
		{policy: "Never", command: "sleep|2m", want: "2m0s 0"},
		{policy: "Never", command: "sleep|infinity", want: "1s 0"},
		{policy: "Never", command: "/bin/false", want: "0s 1"},
		{policy: "Never", command: "exit|3", want: "1s 0"},
		{policy: "Never", command: `sh|-c|echo "hi $WHO"; sleep 5 && echo 'it is $5'; exit 3`,
			want: "5s 3 [0s hi you] [5s it is $5]"},
		{policy: "Never", command: "sh|-c|false || echo no; true && false && echo never || echo ${WHO}",
			want: "0s 0 [0s no] [0s you]"},
		{policy: "Never", command: "sh|-ec|false; echo never", want: "0s 1"},
		{policy: "Never", command: "sh|-c|exit", want: "0s 0"},
		{policy: "Never", command: "sh|-c|echo a | wc", want: "1s 0"},
		{policy: "Never", command: "sh|-c|echo $(date)", want: "1s 0"},
		{policy: "Never", command: "sh|-c|echo 'open", want: "1s 0"},
		{policy: "Always", command: "sh|-c|while true; do sleep 1; done", want: "forever 0"},
		{policy: "Always", annotations: map[string]string{AnnotationRunFor: "90s", AnnotationExitCode: "2"},
			want: "1m30s 2"},
		{policy: "Never", annotations: map[string]string{AnnotationRunFor: "forever"}, want: "forever 0"},
		{policy: "Always", annotations: map[string]string{AnnotationExitCode: "1, 1,0"}, want: "1s 1"},
		{policy: "Always", annotations: map[string]string{AnnotationExitCode: "1, 1,0"}, attempt: 7, want: "1s 0"},
		{policy: "Never", annotations: map[string]string{AnnotationRunFor: "1h", AnnotationRunFor + ".app": "2h",
			AnnotationRunFor + ".other": "3h"}, want: "2h0m0s 0"},
		{policy: "Never", command: "echo|no", annotations: map[string]string{AnnotationLog: "a\nb\n"},
			want: "0s 0 [0s a] [0s b]"},
		{policy: "Never", annotations: map[string]string{AnnotationRunFor: "soon"},
			want: `annotation sim.kelson.dev/run-for: "soon" is neither a duration such as 90s nor "forever"`},
		{policy: "Never", annotations: map[string]string{AnnotationExitCode: "256"},
			want: `annotation sim.kelson.dev/exit-code: "256" is not an exit code from 0 to 255`},
		{policy: "Never", annotations: map[string]string{AnnotationStopAfter: "-1s"},
			want: `annotation sim.kelson.dev/stop-after: "-1s" is not a duration such as 5s`},
	} {
		spec := specOf(test.policy, test.annotations)
		if test.command != "" {
			spec.Command = strings.SplitN(test.command, "|", 3)
		}
		spec.Attempt = test.attempt
		s, err := scriptOf(spec)
		got := fmt.Sprintf("%v %d", s.runFor, s.code)
		if s.runFor == forever {
			got = fmt.Sprintf("forever %d", s.code)
		}
		for _, l := range s.lines {
			got += fmt.Sprintf(" [%v %s]", l.after, l.text)
		}
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s %v %q: %s, want %s", test.policy, test.annotations, test.command, got, test.want)
		}
	}
}

func FuzzInterpret(f *testing.F) {
	for _, seed := range []string{"", ";", "&&", "echo a; sleep 1", "echo \"$A", "exit 1 || true", "${", "'",
		"echo ${A}b", "sleep 99999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := interpret([]string{"sh", "-c", text}, nil); ok && (r.at < 0 || r.code < 0 || r.code > 255) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}

func sandboxOf(t *testing.T, ctx context.Context, spec node.ContainerSpec) node.Sandbox {
	t.Helper()
	s, err := New(Config{}).Sandbox(ctx, spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func logOf(t *testing.T, c node.Container, opts corev1.PodLogOptions) string {
	t.Helper()
	r, err := c.Logs(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, _ := io.ReadAll(r)
	return string(text)
}

func TestContainerPlaysItsScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := specOf("Never", nil, "sh", "-c", "echo one; sleep 60; echo two; exit 4")
		s := sandboxOf(t, t.Context(), spec)
		begin := time.Now()
		c, err := s.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if got := logOf(t, c, corev1.PodLogOptions{}); got != "one\n" {
			t.Errorf("log after 59 s: %q", got)
		}
		if got := logOf(t, c, corev1.PodLogOptions{Follow: true}); got != "one\ntwo\n" {
			t.Errorf("followed log: %q", got)
		}
		<-c.Done()
		if exit := c.Exit(); exit.Code != 4 || exit.FinishedAt.Sub(begin) != time.Minute {
			t.Errorf("exit %+v", exit)
		}
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
}

func TestStop(t *testing.T) {
	for _, test := range []struct {
		name        string
		policy      corev1.RestartPolicy
		annotations map[string]string
		grace       []time.Duration // one Stop each, one second apart
		code        int32
		after       time.Duration
	}{
		{"a server ends well", "Always", nil, []time.Duration{30 * time.Second}, 0, 0},
		{"a program is ended", "Never", map[string]string{AnnotationRunFor: "1h"}, []time.Duration{30 * time.Second},
			143, 0},
		{"slowly", "Always", map[string]string{AnnotationStopAfter: "5s"}, []time.Duration{30 * time.Second}, 0,
			5 * time.Second},
		{"too slowly", "Always", map[string]string{AnnotationStopAfter: "1m"}, []time.Duration{30 * time.Second}, 137,
			30 * time.Second},
		{"stopped again", "Always", map[string]string{AnnotationStopAfter: "1m"},
			[]time.Duration{30 * time.Second, time.Second}, 137, 2 * time.Second},
		{"stopped again with more time", "Always", map[string]string{AnnotationStopAfter: "1m"},
			[]time.Duration{30 * time.Second, time.Hour}, 137, 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := specOf(test.policy, test.annotations)
				s := sandboxOf(t, t.Context(), spec)
				c, err := s.Start(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				begin := time.Now()
				for i, grace := range test.grace {
					time.Sleep(time.Duration(min(i, 1)) * time.Second)
					c.Stop(grace)
				}
				<-c.Done()
				if exit := c.Exit(); exit.Code != test.code || exit.FinishedAt.Sub(begin) != test.after {
					t.Errorf("exit %+v after %v", exit, exit.FinishedAt.Sub(begin))
				}
			})
		})
	}
}

// A later agent finds a container in its state at that time, or an ended container with its log.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := specOf("Never", nil, "sh", "-c", "echo one; sleep 60; echo two")
		started := metav1.Now()
		time.Sleep(30 * time.Second)
		s := sandboxOf(t, t.Context(), spec)
		c := s.Adopt(t.Context(), spec, corev1.ContainerStatus{ContainerID: "simulated://x",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}})
		if got := logOf(t, c, corev1.PodLogOptions{}); got != "one\n" || c.ID() != "simulated://x" {
			t.Errorf("log %q, id %s", got, c.ID())
		}
		<-c.Done()
		if d := time.Since(started.Time); d != time.Minute {
			t.Errorf("ended after %v", d)
		}
		c = s.Adopt(t.Context(), spec, corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 143, StartedAt: started, FinishedAt: metav1.NewTime(started.Add(10 * time.Second))}}})
		<-c.Done()
		if got := logOf(t, c, corev1.PodLogOptions{}); got != "one\n" || c.Exit().Code != 143 {
			t.Errorf("log %q, exit %+v", got, c.Exit())
		}
	})
}

func TestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		spec := specOf("Always", nil)
		s := sandboxOf(t, ctx, spec)
		begin := time.Now()
		c, err := s.Start(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-c.Done()
		// the container has a program that is not simulated
		if got := logOf(t, c, corev1.PodLogOptions{Follow: true}); got != notRun {
			t.Errorf("log %q", got)
		}
		if got := logOf(t, c, corev1.PodLogOptions{TailLines: new(int64)}); got != "" {
			t.Errorf("no line of the log: %q", got)
		}
		want := begin.UTC().Format(time.RFC3339Nano) + " " + notRun
		if got := logOf(t, c, corev1.PodLogOptions{Timestamps: true}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if err := c.(node.Executor).Exec(t.Context(), []string{"bash"}, node.Streams{}); err == nil || !strings.Contains(err.Error(), "--node=containers runs images") {
			t.Errorf("exec: %v", err)
		}
	})
}

func TestAddresses(t *testing.T) {
	r := New(Config{})
	ip := func(wanted string) string {
		s, err := r.Sandbox(t.Context(), &corev1.Pod{Status: corev1.PodStatus{PodIP: wanted}})
		if err != nil {
			t.Fatal(err)
		}
		return s.IP()
	}
	if a, b, c, d := ip(""), ip("10.244.0.2"), ip(""), ip("192.168.0.1"); a != "10.244.0.1" || b != "10.244.0.2" ||
		c != "10.244.0.3" || d != "10.244.0.4" {
		t.Errorf("addresses %s %s %s %s", a, b, c, d)
	}
}
