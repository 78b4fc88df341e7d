package internal_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/internal/require"
)

// TestMain also is the program that the tests start.
func TestMain(m *testing.M) {
	switch os.Getenv("CHILD") {
	case "parent": // starts a process that holds the output open, and does not end by itself
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CHILD=stubborn")
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_ = cmd.Wait()
	case "stubborn":
		signal.Ignore(os.Interrupt, syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "polite":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("asked to end")
	case "writer":
		number, _ := strconv.ParseUint(os.Getenv("NUMBER"), 10, 64)
		f := os.NewFile(uintptr(number), "passed")
		_, err := f.WriteString("from the child")
		fmt.Println(err, f.Close())
	default:
		m.Run()
	}
}

func start(t *testing.T, ctx context.Context, role string) (*child.Group, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "CHILD="+role)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	group, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = group.Kill() })
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.Equalf(t, strings.TrimSpace(line), "ready", "%q: %v", line, err)
	return group, lines
}

func TestGroupIsKilled(t *testing.T) {
	group, lines := start(t, t.Context(), "parent")
	require.NoError(t, group.Kill())
	// The output ends only when the grandchild has ended too.
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Fatalf("%q: %v", rest, err)
	}
	_ = group.Wait()
}

func TestContextTerminatesGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	group, lines := start(t, ctx, "polite")
	cancel()
	rest, err := io.ReadAll(lines)
	if runtime.GOOS == "windows" && len(rest) == 0 {
		t.Skip("SKIPPED: there is no console, so the process was killed")
	}
	if err != nil || strings.TrimSpace(string(rest)) != "asked to end" {
		t.Fatalf("%q: %v", rest, err)
	}
	_ = group.Wait()
}

func TestFileIsPassed(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	cmd := exec.Command(os.Args[0])
	number, err := child.Pass(cmd, write)
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), "CHILD=writer", "NUMBER="+number)
	out, err := cmd.CombinedOutput()
	write.Close()
	require.NoErrorf(t, err, "%s", out)
	if text, err := io.ReadAll(read); err != nil || string(text) != "from the child" {
		t.Fatalf("%q, %v; the child printed %s", text, err, out)
	}
}
