// Runs the scenarios of the Go client against one server: NAMESRV PREFIX [SCENARIO...]. After the word "connected" it
// stays connected as one user instead.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	waitLimit   = 120 * time.Second
	stablePolls = 20
	sideBySide  = 5
)

// A scenario returns a word about its result, or the server's fault as an error.
type scenario func(harness *harness, topic string) (string, error)

type harness struct {
	namesrv string
	prefix  string
	printed sync.Mutex
}

type report struct {
	Scenario string `json:"scenario"`
	Ok       bool   `json:"ok"`
	Detail   string `json:"detail"`
}

func (h *harness) runOne(name string, run scenario) {
	defer func() {
		if problem := recover(); problem != nil {
			h.print(report{name, false, fmt.Sprintf("panic: %v", problem)})
		}
	}()
	detail, err := run(h, h.prefix+"-"+name)
	if err != nil {
		h.print(report{name, false, err.Error()})
		return
	}
	h.print(report{name, true, detail})
}

func (h *harness) print(r report) {
	line, _ := json.Marshal(r)
	h.printed.Lock()
	defer h.printed.Unlock()
	fmt.Println(string(line))
}

// await polls until the condition holds, and fails with the name of the condition.
func await(what string, condition func() bool) error {
	deadline := time.Now().Add(waitLimit)
	for !condition() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", waitLimit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func main() {
	rlog.SetLogLevel("error")
	if os.Args[1] == "connected" {
		stayConnected(os.Args[2:])
		return
	}
	h := &harness{namesrv: os.Args[1], prefix: os.Args[2]}
	all := scenarios()
	wanted := os.Args[3:]
	slots := make(chan struct{}, sideBySide)
	var running sync.WaitGroup
	for _, name := range wanted {
		run, known := all[name]
		if !known {
			h.print(report{name, false, "the Go program has no such scenario"})
			continue
		}
		running.Add(1)
		slots <- struct{}{}
		go func(name string, run scenario) {
			defer running.Done()
			h.runOne(name, run)
			<-slots
		}(name, run)
	}
	running.Wait()
}
