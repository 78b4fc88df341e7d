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
	"kelson.dev/internal/require"
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
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	lines := bufio.NewReader(out)
	for _, want := range []string{"started\n", "asked to end\n"} {
		line, err := lines.ReadString('\n')
		require.Equalf(t, line, want, "%v", err)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGINT) {
		t.Errorf("the command ended with %v", err)
	}
}
