package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// The JSON log has the members that the logs of Kubernetes' components have.
func TestJSONLog(t *testing.T) {
	var out bytes.Buffer
	log := NewLog(&out, slog.LevelWarn, true)
	log.Info("not shown")
	before := float64(time.Now().UnixNano()) / 1e6
	log.Error("open file", "path", "/x", "err", errors.New("broken"))
	var line struct {
		Time float64 `json:"ts"`
		V    *int    `json:"v"`
		Msg  string  `json:"msg"`
		Path string  `json:"path"`
		Err  string  `json:"err"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err, out.String())
	}
	if line.Time < before || line.V == nil || *line.V != 0 || line.Msg != "open file" || line.Path != "/x" ||
		line.Err != "broken" {
		t.Errorf("%s", out.String())
	}
}
