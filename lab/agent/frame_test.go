package agent

import (
	"bytes"
	"reflect"
	"testing"

	"kelson.dev/lab/agent/inside"
)

// Frames and their contents survive encoding, also when they arrive in parts.
func TestFrames(t *testing.T) {
	m := &inside.Message{Method: "PATCH", Target: "/api/v1/pods?a=b", Status: 200,
		Header: []string{"Accept", "x", "Accept", ""}, Body: []byte("{}")}
	times := inside.Times{Now: 1, Floor: -2, Until: 1 << 60, Process: 2, OwnLeases: true}
	frames := []inside.Frame{{Kind: inside.Request, ID: 7, Content: m.Append(nil)}, {Kind: inside.Data, ID: 1 << 31},
		{Kind: inside.Run, Content: times.Append(nil)}}
	var data []byte
	for _, f := range frames {
		data = inside.AppendFrame(data, f)
	}
	for _, want := range frames {
		for end := range len(inside.AppendFrame(nil, want)) {
			if f, size, err := inside.NextFrame(data[:end]); size != 0 || err != nil {
				t.Fatalf("%d bytes are a frame: %v, %v", end, f, err)
			}
		}
		f, size, err := inside.NextFrame(data)
		if err != nil || f.Kind != want.Kind || f.ID != want.ID || !bytes.Equal(f.Content, want.Content) {
			t.Fatalf("%v, %v, want %v", f, err, want)
		}
		data = data[size:]
	}
	if got, err := inside.ParseMessage(frames[0].Content); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%v, %v, want %v", got, err, m)
	}
	if got, err := inside.ParseTimes(frames[2].Content); err != nil || got != times {
		t.Errorf("%v, %v, want %v", got, err, times)
	}
}

// Malformed input is an error.
func FuzzParse(f *testing.F) {
	f.Add(inside.AppendFrame(nil, inside.Frame{Kind: inside.Request, ID: 7,
		Content: (&inside.Message{Method: "GET", Header: []string{"a", "b"}}).Append(nil)}))
	f.Add([]byte{1, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, size, err := inside.NextFrame(data)
		if err == nil && size > 0 {
			if again := inside.AppendFrame(nil, frame); !bytes.Equal(again, data[:size]) {
				t.Errorf("%x is encoded as %x", data[:size], again)
			}
			_, _ = inside.ParseMessage(frame.Content)
		}
		_, _ = inside.ParseMessage(data)
		_, _ = inside.ParseTimes(data)
		_, _, _ = inside.ParseIdle(data)
	})
}
