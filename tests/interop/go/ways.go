package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	timerMs       = 1500
	traceTopic    = "RMQ_SYS_TRACE_TOPIC"
	traceInterval = 2 * time.Second
)

// outcomes decides by the body: "<first state> <state after a check>".
type outcomes struct {
	checked seen
}

func (o *outcomes) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return stateOf(strings.Fields(string(message.Body))[0])
}

func (o *outcomes) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	o.checked.add(message)
	return stateOf(strings.Fields(string(message.Body))[1])
}

func stateOf(word string) primitive.LocalTransactionState {
	return map[string]primitive.LocalTransactionState{
		"commit":   primitive.CommitMessageState,
		"rollback": primitive.RollbackMessageState,
		"unknown":  primitive.UnknowState,
	}[word]
}

// transacted sends half messages with these bodies, and checks that a consumer gets the wanted ones only.
func transacted(h *harness, topic string, listener *outcomes, bodies, wanted []string) error {
	p, err := rocketmq.NewTransactionProducer(
		listener,
		producer.WithGroupName(topic+"-producer"),
		producer.WithInstanceName(fmt.Sprintf("%s-%d", topic, time.Now().UnixNano())),
		producer.WithNameServer([]string{h.namesrv}),
		producer.WithSendMsgTimeout(30*time.Second),
	)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	for _, body := range bodies {
		if _, err := p.SendMessageInTransaction(context.Background(), primitive.NewMessage(topic, []byte(body))); err != nil {
			return err
		}
	}
	var got seen
	c, err := h.consumer(topic, topic, "*", got.consume)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := await("what was committed", func() bool { return len(got.bodies()) >= len(wanted) }); err != nil {
		return err
	}
	for _, body := range wanted {
		if !got.has(body) {
			return fmt.Errorf("got %v, not %q", got.bodies(), body)
		}
	}
	if len(got.bodies()) != len(wanted) {
		return fmt.Errorf("got %v", got.bodies())
	}
	return nil
}

func transaction(h *harness, topic string) (string, error) {
	bodies := []string{"rollback -", "commit -"}
	return "one of two", transacted(h, topic, &outcomes{}, bodies, bodies[1:])
}

func transactionCheck(h *harness, topic string) (string, error) {
	listener, bodies := &outcomes{}, []string{"unknown rollback", "unknown commit"}
	if err := transacted(h, topic, listener, bodies, bodies[1:]); err != nil {
		return "", err
	}
	return "checked", await("both checks", func() bool {
		return listener.checked.has(bodies[0]) && listener.checked.has(bodies[1])
	})
}

func requestReply(h *harness, topic string) (string, error) {
	replier, err := h.producer(topic + "-replier")
	if err != nil {
		return "", err
	}
	defer replier.Shutdown()
	answer := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			reply, err := consumer.CreateReplyMessage(message, nil)
			if err != nil {
				return consumer.ConsumeRetryLater, err
			}
			reply.Body = append([]byte("reply to "), message.Body...) // CreateReplyMessage sets none
			if _, err := replier.SendSync(context.Background(), reply); err != nil {
				return consumer.ConsumeRetryLater, err
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	c, err := h.consumer(topic, topic, "*", answer)
	if err != nil {
		return "", err
	}
	defer c.Shutdown()
	asker, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer asker.Shutdown()
	reply, err := asker.Request(context.Background(), waitLimit, primitive.NewMessage(topic, []byte("question")))
	if err != nil {
		return "", err
	}
	if string(reply.Body) != "reply to question" {
		return "", fmt.Errorf("reply %q", reply.Body)
	}
	return "replied", nil
}

// trace returns the id of a message whose whole way is traced; the test reads the traces. The client drops what it
// traces before it knows the route of the trace topic, and does not say when it does: so messages follow each other
// until the traces of one are complete.
func trace(h *harness, topic string) (string, error) {
	settings := &primitive.TraceConfig{
		GroupName:    topic + "-trace",
		Access:       primitive.Local,
		NamesrvAddrs: []string{h.namesrv},
	}
	p, err := h.producer(topic, producer.WithTrace(settings))
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	var got, traces seen
	c, err := h.consumer(topic, topic, "*", got.consume, consumer.WithTrace(settings))
	if err != nil {
		return "", err
	}
	defer c.Shutdown()
	reader, err := h.consumer(topic+"-reader", traceTopic, "*", traces.consume)
	if err != nil {
		return "", err
	}
	defer reader.Shutdown()
	sent := map[string]bool{}
	var next time.Time
	var found string
	var failure error
	err = await("the traces of one of the messages", func() bool {
		if now := time.Now(); now.After(next) {
			next = now.Add(traceInterval)
			message := primitive.NewMessage(topic, []byte("follow me")).WithTag("TagA").WithKeys([]string{"trace-key"})
			result, err := p.SendSync(context.Background(), message)
			if err != nil {
				failure = err
				return true
			}
			sent[result.MsgID] = true
		}
		found = tracedWholly(traces.bodies(), sent)
		return found != ""
	})
	if failure != nil {
		return "", failure
	}
	return found, err
}

// tracedWholly returns the id of a message whose sending, delivery and consumption are all in the trace bodies.
func tracedWholly(bodies []string, ids map[string]bool) string {
	kinds := map[string]map[string]bool{}
	for _, records := range bodies {
		for _, record := range strings.Split(records, "\x02") {
			for id := range ids {
				if !strings.Contains(record, id) {
					continue
				}
				if kinds[id] == nil {
					kinds[id] = map[string]bool{}
				}
				kinds[id][strings.SplitN(record, "\x01", 2)[0]] = true
			}
		}
	}
	for id, of := range kinds {
		if of["Pub"] && of["SubBefore"] && of["SubAfter"] {
			return id
		}
	}
	return ""
}

func timer(h *harness, topic string) (string, error) {
	var got seen
	c, err := h.consumer(topic, topic, "*", got.consume)
	if err != nil {
		return "", err
	}
	defer c.Shutdown()
	p, err := h.producer(topic)
	if err != nil {
		return "", err
	}
	defer p.Shutdown()
	due := time.Now().UnixMilli() + timerMs
	message := primitive.NewMessage(topic, []byte("on time"))
	message.WithProperty("TIMER_DELIVER_MS", fmt.Sprint(due))
	if _, err := p.SendSync(context.Background(), message); err != nil {
		return "", err
	}
	if err := await("the timer message", func() bool { return got.has("on time") }); err != nil {
		return "", err
	}
	got.lock.Lock()
	defer got.lock.Unlock()
	if early := due - got.messages[0].StoreTimestamp; early > 0 {
		return "", fmt.Errorf("stored %d ms early", early)
	}
	return "delivered", nil
}
