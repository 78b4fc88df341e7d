//go:build unix

package internal_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"kelson.dev/cmd/kelson/internal/exit"
)

// The first signal asks a command to end, and the second one ends it, even if the command was
// started with the signal ignored. This test is also the command.
func TestSecondSignalEndsProcess(t *testing.T) {
	if os.Getenv("COMMAND") != "" {
		ctx := exit.OnSignal(os.Interrupt)
		os.Stdout.WriteString("started\n")
		<-ctx.Done()
		os.Stdout.WriteString("asked to end\n")
		select {}
	}
	signal.Ignore(os.Interrupt) // as a shell; the command inherits it
	defer signal.Reset(os.Interrupt)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondSignalEndsProcess$")
	cmd.Env = append(os.Environ(), "COMMAND=true")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewReader(out)
	for _, want := range []string{"started\n", "asked to end\n"} {
		if line, err := lines.ReadString('\n'); line != want {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGINT) {
		t.Errorf("the command ended with %v", err)
	}
}
