package toolchain_test

import (
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/adopt"
)

// The program is the one that the Dockerfile or the Makefile builds as the image's entry point.
func TestProgram(t *testing.T) {
	for name, c := range map[string]struct {
		files      map[string]string
		main, tags string
	}{
		"Dockerfile": {map[string]string{
			"Dockerfile": "FROM golang\nRUN go build -o kubectl-x ./cmd/plugin\nRUN CGO_ENABLED=0 go build -a \\\n  -tags timetzdata -o /out/manager ./cmd/operator\nENTRYPOINT [\"/manager\"]\n",
		}, "cmd/operator", "timetzdata"},
		"entry point of a Makefile": {map[string]string{
			"Dockerfile": "RUN make manager\nENTRYPOINT [\"/sbin/tini\", \"--\", \"/keda\", \"--v=1\"]\n",
			"Makefile":   "OUT ?= bin\nmanager:\n\t${VARS} go build -ldflags $(FLAGS) -o $(OUT)/keda cmd/operator/main.go\nplugin:\n\tgo build -o bin/manager ./cmd/plugin\n",
		}, "cmd/operator", ""},
		"go in a variable": {map[string]string{
			"Makefile": "GO_CMD ?= go\nbuild:\n\tCGO_ENABLED=0 $(GO_CMD) build -ldflags=\"$(LD_FLAGS)\" -o bin/manager cmd/plugin/main.go\n",
		}, "cmd/plugin", ""},
		"other programs only": {map[string]string{
			"Makefile": "build:\n\tdocker build -o manager .\n\tgo build -o bin/plugin ./cmd/plugin\n",
		}, "", ""},
		"unknown package": {map[string]string{"Dockerfile": "RUN go build -o manager ${package}\n"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range []string{"cmd/operator", "cmd/plugin"} {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
			}
			require.Files(t, dir, c.files)
			b, err := adopt.Program(dir)
			require.NoError(t, err)
			if c.main == "" {
				if b != nil {
					t.Fatalf("found %+v", *b)
				}
				return
			}
			if b == nil || b.Main != filepath.Join(dir, c.main) || b.Tags != c.tags {
				t.Fatalf("found %+v, not %s with tags %q", b, c.main, c.tags)
			}
		})
	}
}

// The last stage of a Dockerfile copies files of the project to the image.
func TestImageFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"templates/a.txt": "", "web/b.css": "", "web/c.css": "", "LICENSE": "", "secret.txt": "",
		"Dockerfile": `FROM golang AS build
COPY secret.txt .
FROM scratch
WORKDIR /srv
copy --from=build /workspace/manager .
COPY --chown=65532:65532 templates templates/
COPY web/*.css \
  /css
WORKDIR app
ADD ["LICENSE", "NOTICE.txt"]
COPY LICENSE templates/a.txt ./
COPY . /all
COPY ../outside /outside
COPY ${FILES} /variable
ADD https://example.com/a.txt /a.txt
ENTRYPOINT ["/srv/manager"]
`} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want := []adopt.ImageFile{
		{Source: "templates", To: "/srv/templates"}, {Source: "web/b.css", To: "/css/b.css"}, {Source: "web/c.css", To: "/css/c.css"},
		{Source: "LICENSE", To: "/srv/app/NOTICE.txt"}, {Source: "LICENSE", To: "/srv/app/LICENSE"}, {Source: "templates/a.txt", To: "/srv/app/a.txt"},
	}
	assert.Slicef(t, adopt.ImageFiles(dir), want, "the image")
	if got := adopt.ImageFiles(t.TempDir()); got != nil {
		t.Errorf("without a Dockerfile: %q", got)
	}
}
