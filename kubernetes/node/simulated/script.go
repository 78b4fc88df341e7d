package simulated

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
)

// Annotations of a pod that say what its simulated containers do. Each holds for all containers, or for one when "." and the
// container's name follow: sim.kelson.dev/exit-code.app.
const (
	// AnnotationRunFor is how long a container runs, as in "90s", or "forever".
	AnnotationRunFor = "sim.kelson.dev/run-for"
	// AnnotationExitCode is its exit code, 0-255; a list like "1,1,0" is one for each attempt, the last for all that follow.
	AnnotationExitCode = "sim.kelson.dev/exit-code"
	// AnnotationExitReason is the reason of its end instead of Completed or Error, such as OOMKilled.
	AnnotationExitReason = "sim.kelson.dev/exit-reason"
	// AnnotationMessage is its termination message.
	AnnotationMessage = "sim.kelson.dev/message"
	// AnnotationLog is what it prints when it starts; lines are parted by newlines.
	AnnotationLog = "sim.kelson.dev/log"
	// AnnotationStopAfter is how long it takes to end when it is asked to; nothing or "0s": it ends at once.
	AnnotationStopAfter = "sim.kelson.dev/stop-after"
)

// DefaultRunFor is how long a container runs that is to end some time, when nothing says how long.
const DefaultRunFor = time.Second

// forever is the end of a container that only ends when it is stopped.
const forever time.Duration = -1

// script is all that a container will do, decided when it starts.
type script struct {
	lines     []line // in order of time
	runFor    time.Duration
	code      int32
	reason    string
	message   string
	stopAfter time.Duration
}

// line is one printed line and when, after the start.
type line struct {
	after time.Duration
	text  string
}

// scriptOf decides what a container does: by the pod's annotations, else by its command where that is plain enough, else by its
// restart policy: for ever where it would be restarted, or DefaultRunFor and success.
func scriptOf(spec node.ContainerSpec) (script, error) {
	s := script{runFor: DefaultRunFor}
	if restartsAlways(spec) {
		s.runFor = forever
	}
	if command := append(append([]string(nil), spec.Command...), spec.Args...); len(command) > 0 {
		if run, ok := interpret(command, spec.Env); ok {
			s.lines, s.runFor, s.code = run.lines, run.at, run.code
		}
	}
	if text, ok := annotation(spec, AnnotationLog); ok {
		s.lines = nil
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
			return s, fmt.Errorf("annotation %s: %q is no duration such as 90s, and not \"forever\"", AnnotationRunFor, text)
		default:
			s.runFor = d
		}
	}
	if text, ok := annotation(spec, AnnotationExitCode); ok {
		codes := strings.Split(text, ",")
		text = strings.TrimSpace(codes[min(int(spec.Attempt), len(codes)-1)])
		code, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return s, fmt.Errorf("annotation %s: %q is no exit code from 0 to 255", AnnotationExitCode, text)
		}
		s.code = int32(code)
		if _, ok := annotation(spec, AnnotationRunFor); !ok && s.runFor == forever {
			s.runFor = DefaultRunFor // whoever names an exit code wants an end
		}
	}
	if text, ok := annotation(spec, AnnotationStopAfter); ok {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return s, fmt.Errorf("annotation %s: %q is no duration such as 5s", AnnotationStopAfter, text)
		}
		s.stopAfter = d
	}
	s.reason, _ = annotation(spec, AnnotationExitReason)
	s.message, _ = annotation(spec, AnnotationMessage)
	return s, nil
}

// annotation is the container's own annotation or else the pod's.
func annotation(spec node.ContainerSpec, name string) (string, bool) {
	if text, ok := spec.Pod.Annotations[name+"."+spec.Container.Name]; ok {
		return text, true
	}
	text, ok := spec.Pod.Annotations[name]
	return text, ok
}

// restartsAlways tells whether a container is meant to run for as long as its pod.
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
