package startup

import (
	"os"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
)

func TestRestore(t *testing.T) {
	for _, test := range []struct{ name, env, during string }{
		{"nothing set", "", "GOGC=off LC_ALL=zh_TW.UTF-8"},
		{"a language", "LC_ALL=de_DE.UTF-8", "GOGC=off LC_ALL=zh_TW.UTF-8"},
		{"a pace", "GOGC=50", "GOGC=50 LC_ALL=zh_TW.UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := func() []string {
				var env []string
				for _, name := range []string{gogc, language, former + gogc, former + language} {
					if value, ok := os.LookupEnv(name); ok {
						env = append(env, name+"="+value)
					}
				}
				return env
			}
			for _, name := range []string{gogc, language, former + gogc, former + language} {
				t.Setenv(name, "") // restores it after the test
				os.Unsetenv(name)
			}
			for _, v := range strings.Fields(test.env) {
				name, value, _ := strings.Cut(v, "=")
				os.Setenv(name, value)
			}
			before := now()
			for _, v := range Environ(before) {
				name, value, _ := strings.Cut(v, "=")
				os.Setenv(name, value)
			}
			during := slices.DeleteFunc(now(), func(v string) bool { return strings.HasPrefix(v, former) })
			assert.Equalf(t, strings.Join(during, " "), test.during, "the process starts")
			Restore()
			if got := now(); !slices.Equal(got, before) {
				t.Errorf("afterwards it has %v, before %v", got, before)
			}
		})
	}
}
