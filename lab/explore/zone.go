package explore

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
)

// TimeZone has the operator's processes run in another time zone until the operator is quiet after
// the N-th input, and then in UTC. At the end, the objects must be as if all processes had run in
// UTC (O1, O9): the time zone of a process depends on its image and its machine, and the process of
// another node may continue its work. It needs a Program, because all operators in this program
// have one time zone.
const TimeZone Kind = "time-zone"

// zoneName is the name of the other time zone, and zoneOffset its difference from UTC in seconds.
// Bubbles begin at midnight in UTC, so the date differs, too.
const (
	zoneName   = "UTC-11"
	zoneOffset = -11 * 60 * 60
)

// errNoZone means that a plan needs a Program.
var errNoZone = errors.New("a plan with another time zone needs the operator as a program in virtual time")

// zones returns the plans with TimeZone, one for each input.
func (e *explorer) zones() (plans []Plan) {
	if e.virtual == nil {
		return nil
	}
	for n, input := range e.scenario.Inputs {
		if input.wait == 0 {
			plans = append(plans, Plan{{Kind: TimeZone,
				At: Point{Verb: after, Resource: "operator", Object: zoneName, N: n + 1}}})
		}
	}
	return plans
}

// startZone starts the first process in the other time zone, outside of a bubble.
func (v *virtual) startZone() error {
	if v.zone != nil {
		return nil
	}
	file := filepath.Join(v.dir, zoneName)
	if err := os.WriteFile(file, zoneFile(), 0o600); err != nil {
		return err
	}
	v.zone = v.newPool(v.program, 1, "TZ="+file)
	return nil
}

// zoneFile returns the time zone in the format TZif of RFC 9636. Machines without files of time
// zones have it, too.
func zoneFile() []byte {
	data := append([]byte("TZif"), make([]byte, 16)...)
	offset := int32(zoneOffset)
	// The numbers of indicators (two kinds), leap seconds, transitions, types and characters.
	for _, n := range []uint32{0, 0, 0, 0, 1, uint32(len(zoneName) + 1), uint32(offset)} {
		data = binary.BigEndian.AppendUint32(data, n)
	}
	data = append(data, 0, 0) // no daylight saving time; the name begins at the first character
	return append(append(data, zoneName...), 0)
}
