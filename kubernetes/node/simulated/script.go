package simulated

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
)

// Annotations of a pod that control its simulated containers. They apply to all containers, or to
// one if "." and its name follow: sim.kelson.dev/exit-code.app.
const (
	// AnnotationRunFor is how long a container runs, such as "90s", or "forever".
	AnnotationRunFor = "sim.kelson.dev/run-for"
	// AnnotationExitCode is the exit code, 0-255. A list such as "1,1,0" has a code for each
	// attempt; the last code also applies to all further attempts.
	AnnotationExitCode = "sim.kelson.dev/exit-code"
	// AnnotationExitReason is the exit reason, such as OOMKilled, instead of Completed or Error.
	AnnotationExitReason = "sim.kelson.dev/exit-reason"
	// AnnotationMessage is the termination message.
	AnnotationMessage = "sim.kelson.dev/message"
	// AnnotationLog is the output at the container's start; it may have several lines.
	AnnotationLog = "sim.kelson.dev/log"
	// AnnotationStopAfter is how long the container takes to end after SIGTERM; the default is
	// "0s".
	AnnotationStopAfter = "sim.kelson.dev/stop-after"
)

// DefaultRunFor is the default duration of containers that end by themselves.
const DefaultRunFor = time.Second

// forever is the duration of a container that ends only when it is stopped.
const forever time.Duration = -1

// script is the behavior of a container, determined at its start.
type script struct {
	lines     []line // in order of time
	runFor    time.Duration
	code      int32
	reason    string
	message   string
	stopAfter time.Duration
	notRun    bool // the container has a program that is not simulated, and no declared log
}

// line is a line of output and its time after the start.
type line struct {
	after time.Duration
	text  string
}

// scriptOf returns the script of a container: by the pod's annotations, then by its command if
// interpret can simulate it, and then by its restart policy. A container that would always be
// restarted runs forever; others run for DefaultRunFor and succeed.
func scriptOf(spec node.ContainerSpec) (script, error) {
	s := script{runFor: DefaultRunFor}
	if restartsAlways(spec) {
		s.runFor = forever
	}
	s.notRun = true
	if command := append(append([]string(nil), spec.Command...), spec.Args...); len(command) > 0 {
		if run, ok := interpret(command, spec.Env); ok {
			s.lines, s.runFor, s.code, s.notRun = run.lines, run.at, run.code, false
		}
	}
	if text, ok := annotation(spec, AnnotationLog); ok {
		s.lines, s.notRun = nil, false
		for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			s.lines = append(s.lines, line{text: l})
		}
	}
	if text, ok := annotation(spec, AnnotationRunFor); ok {
		d, err := time.ParseDuration(text)
		switch {
		case text == "forever":
			s.runFor = forever
		case err != nil || d < 0:
			return s, fmt.Errorf("annotation %s: %q is neither a duration such as 90s nor \"forever\"",
				AnnotationRunFor, text)
		default:
			s.runFor = d
		}
	}
	if text, ok := annotation(spec, AnnotationExitCode); ok {
		codes := strings.Split(text, ",")
		text = strings.TrimSpace(codes[min(int(spec.Attempt), len(codes)-1)])
		code, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return s, fmt.Errorf("annotation %s: %q is not an exit code from 0 to 255", AnnotationExitCode, text)
		}
		s.code = int32(code)
		if _, ok := annotation(spec, AnnotationRunFor); !ok && s.runFor == forever {
			s.runFor = DefaultRunFor // an exit code implies that the container ends
		}
	}
	if text, ok := annotation(spec, AnnotationStopAfter); ok {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return s, fmt.Errorf("annotation %s: %q is not a duration such as 5s", AnnotationStopAfter, text)
		}
		s.stopAfter = d
	}
	s.reason, _ = annotation(spec, AnnotationExitReason)
	s.message, _ = annotation(spec, AnnotationMessage)
	return s, nil
}

// annotation returns the container's annotation, or else the pod's.
func annotation(spec node.ContainerSpec, name string) (string, bool) {
	if text, ok := spec.Pod.Annotations[name+"."+spec.Container.Name]; ok {
		return text, true
	}
	text, ok := spec.Pod.Annotations[name]
	return text, ok
}

// restartsAlways reports whether a container should run as long as its pod.
func restartsAlways(spec node.ContainerSpec) bool {
	if policy := spec.Container.RestartPolicy; policy != nil {
		return *policy == corev1.ContainerRestartPolicyAlways
	}
	for i := range spec.Pod.Spec.InitContainers {
		if spec.Pod.Spec.InitContainers[i].Name == spec.Container.Name {
			return false
		}
	}
	return spec.Pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || spec.Pod.Spec.RestartPolicy == ""
}
