package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// module writes packages with one test each to a new folder and makes it the working directory.
func module(t *testing.T, bodies map[string]string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("go.mod", "module example.com/m\n\ngo 1.26\n")
	for name, body := range bodies {
		write(name+"/x_test.go", "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestX(t *testing.T) {\n"+
			body+"\n_ = os.Args\n}\n")
	}
	t.Setenv("GOWORK", "off")
	t.Chdir(dir)
}

func TestRerun(t *testing.T) {
	require.Long(t, "links three test programs")
	module(t, map[string]string{
		"steady": "",
		"flaky": `if _, err := os.Stat("ran"); err != nil {
			os.WriteFile("ran", nil, 0o644)
			t.Run("sub", func(t *testing.T) { t.Error("the first run") })
		}`,
	})
	var out, problems bytes.Buffer
	if err := rerun([]string{"-vet=off", "./..."}, &out, &problems); err != nil {
		t.Fatalf("a program that fails once: %v\n%s%s", err, &out, &problems)
	}
	wantInOrder(t, out.String(), "FAIL\texample.com/m/flaky\t", "ok  \texample.com/m/steady\t",
		"\nok  \texample.com/m/flaky\t",
		"FLAKY: example.com/m/flaky: TestX/sub; the second run passed\n")
	if n := strings.Count(out.String(), "example.com/m/steady"); n != 1 {
		t.Errorf("the package that passed ran %d times, want 1:\n%s", n, &out)
	}

	require.NoError(t, os.WriteFile("steady/y_test.go",
		[]byte("package x\n\nimport \"testing\"\n\nfunc TestY(t *testing.T) { panic(1) }\n"), 0o644))
	out.Reset()
	err := rerun([]string{"-vet=off", "./..."}, &out, &problems)
	assert.ErrorIsf(t, err, errFailed, "a program that fails twice:")
	wantInOrder(t, out.String(), "ok  \texample.com/m/flaky\t", "FAIL\texample.com/m/steady\t",
		"FAIL\texample.com/m/steady\t",
		"FAILED TWICE: example.com/m/steady: TestY; second run: TestY\n")

	require.NoError(t, os.WriteFile("steady/y_test.go", []byte("package x\n\nfunc broken() int {}\n"), 0o644))
	out.Reset()
	err = rerun([]string{"-vet=off", "./..."}, &out, &problems)
	assert.ErrorIsf(t, err, errFailed, "a package that does not compile:")
	if strings.Contains(out.String(), "second time") {
		t.Errorf("a package that does not compile ran a second time:\n%s", &out)
	}
}

func TestStress(t *testing.T) {
	require.Long(t, "links two test programs")
	module(t, map[string]string{
		"steady":   "",
		"parallel": `if os.Getenv("GOMAXPROCS") == "1" { t.Error("one processor") }`,
	})
	var out bytes.Buffer
	err := stress([]string{"-runs=3", "-processors=1,2", "-busy=1", "-logs=logs", "./..."}, &out)
	assert.ErrorIs(t, err, errFailed)
	for _, want := range []string{
		"ok  \texample.com/m/steady\t6 runs in ", "FAIL\texample.com/m/parallel\t3 of 6 runs in ",
		": TestX (GOMAXPROCS=1): 3\n",
		"stress: programs: 2 of 2, failed: 1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	log, err := os.ReadFile("logs/example.com_m_parallel-1-3.log")
	if err != nil || !strings.Contains(string(log), "x_test.go:9: one processor") {
		t.Errorf("the log of a failed run: %v\n%s", err, log)
	}
}

func wantInOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("the output lacks %q, or has it before its predecessor:\n%s", part, text)
		}
		rest = after
	}
}

func TestReadOutput(t *testing.T) {
	const text = `# example.com/m/broken [example.com/m/broken.test]
broken/x_test.go:3:1: missing return
--- FAIL: TestA (0.01s)
    --- FAIL: TestA/one (0.00s)
        x_test.go:7: FAIL	example.com/m/logged	0.1s
    --- FAIL: TestA/two (0.00s)
FAIL
FAIL	example.com/m/a	0.012s
ok  	example.com/m/b	(cached)
?   	example.com/m/c	[no test files]
panic: test timed out after 1s
	running tests:
		TestSlow (1s)

goroutine 7 [running]:
FAIL	example.com/m/d	1.009s
FAIL	example.com/m/broken [build failed]
FAIL	example.com/m/e	0.1s
FAIL
`
	res, err := readOutput(strings.NewReader(text))
	require.NoError(t, err)
	var got []string
	for _, p := range res.failed {
		got = append(got, p.path+": "+p.what())
	}
	want := []string{"example.com/m/a: TestA/one, TestA/two", "example.com/m/d: TestSlow (timed out)",
		"example.com/m/e: failed outside of a test"}
	if !slices.Equal(got, want) || !res.broken {
		t.Errorf("failed programs %q, broken %v; want %q, true", got, res.broken, want)
	}
}

func TestSplitPackages(t *testing.T) {
	flags, packages := splitPackages([]string{"-timeout", "40m", "-run", "./x", "-short", ".", "./..."})
	if strings.Join(flags, " ") != "-timeout 40m -run ./x -short" || strings.Join(packages, " ") != ". ./..." {
		t.Errorf("flags %q, packages %q", flags, packages)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"unknown"}, {"rerun", "-short"}, {"stress"},
		{"stress", "-processors=1,x", "."}, {"stress", "-runs=0", "."}} {
		if err := run(args); err == nil {
			t.Errorf("programs %q: no error", args)
		}
	}
}
