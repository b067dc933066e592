// The driver of the Go gRPC client. It does what each line of standard input asks, side by side.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	callTimeout = 10 * time.Second
	await       = 5 * time.Second
)

type request struct {
	Call         int               `json:"call"`
	Op           string            `json:"op"`
	Endpoint     string            `json:"endpoint"`
	User         []string          `json:"user"`
	Name         string            `json:"name"`
	Group        string            `json:"group"`
	Topic        string            `json:"topic"`
	Tags         string            `json:"tags"`
	SQL          string            `json:"sql"`
	Body         []byte            `json:"body"`
	Tag          string            `json:"tag"`
	Keys         []string          `json:"keys"`
	Properties   map[string]string `json:"properties"`
	MessageGroup string            `json:"message_group"`
	DeliveryMs   int64             `json:"delivery_ms"`
	Transaction  bool              `json:"transaction"`
	Commit       bool              `json:"commit"`
	ID           string            `json:"id"`
	Handle       string            `json:"handle"`
	Count        int32             `json:"count"`
	Seconds      int               `json:"seconds"`
}

type message struct {
	ID           string            `json:"id"`
	Topic        string            `json:"topic"`
	Body         []byte            `json:"body"`
	Tag          *string           `json:"tag"`
	Keys         []string          `json:"keys"`
	Properties   map[string]string `json:"properties"`
	MessageGroup *string           `json:"message_group"`
	DeliveryMs   *int64            `json:"delivery_ms"`
	BornMs       int64             `json:"born_ms"`
	Attempt      int32             `json:"attempt"`
}

// driver keeps what later lines name: clients by their names, the rest by message ids.
type driver struct {
	printing     sync.Mutex
	clients      sync.Map
	transactions sync.Map
	received     sync.Map
}

func (d *driver) tell(line map[string]any) {
	text, _ := json.Marshal(line)
	d.printing.Lock()
	defer d.printing.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func (d *driver) answer(r *request) {
	defer func() {
		if problem := recover(); problem != nil {
			d.tell(map[string]any{"call": r.Call, "error": fmt.Sprintf("panic: %v", problem)})
		}
	}()
	result, err := d.run(r)
	if err != nil {
		d.tell(map[string]any{"call": r.Call, "error": err.Error()})
		return
	}
	d.tell(map[string]any{"call": r.Call, "result": result})
}

func client[T any](d *driver, name string) T {
	found, _ := d.clients.Load(name)
	return found.(T)
}

func (d *driver) start(name string, made interface{ Start() error }, err error) (any, error) {
	if err == nil {
		err = made.Start()
	}
	d.clients.Store(name, made)
	return nil, err
}

func (d *driver) run(r *request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout+await)
	defer cancel()
	config := &rocketmq.Config{
		Endpoint: r.Endpoint, ConsumerGroup: r.Group, Credentials: &credentials.SessionCredentials{},
	}
	if r.User != nil {
		config.Credentials.AccessKey, config.Credentials.AccessSecret = r.User[0], r.User[1]
	}
	switch r.Op {
	case "producer":
		made, err := rocketmq.NewProducer(
			config, rocketmq.WithTopics(r.Topic),
			rocketmq.WithTransactionChecker(&rocketmq.TransactionChecker{Check: check}),
		)
		return d.start(r.Name, made, err)
	case "send":
		return d.send(ctx, r)
	case "end":
		transaction, _ := d.transactions.LoadAndDelete(r.ID)
		if r.Commit {
			return nil, transaction.(rocketmq.Transaction).Commit()
		}
		return nil, transaction.(rocketmq.Transaction).RollBack()
	case "recall":
		return client[rocketmq.Producer](d, r.Name).Recall(ctx, r.Topic, r.Handle)
	case "simple":
		made, err := rocketmq.NewSimpleConsumer(
			config, rocketmq.WithSimpleAwaitDuration(await), rocketmq.WithSimpleSubscriptionExpressions(r.subscription()),
		)
		return d.start(r.Name, made, err)
	case "receive":
		return d.receive(ctx, r)
	case "ack":
		got, _ := d.received.Load(r.ID)
		return nil, client[rocketmq.SimpleConsumer](d, r.Name).Ack(ctx, got.(*rocketmq.MessageView))
	case "change":
		got, _ := d.received.Load(r.ID)
		invisible := time.Duration(r.Seconds) * time.Second
		consumer := client[rocketmq.SimpleConsumer](d, r.Name)
		return nil, consumer.ChangeInvisibleDuration(got.(*rocketmq.MessageView), invisible)
	case "push":
		made, err := rocketmq.NewPushConsumer(
			config, rocketmq.WithPushAwaitDuration(await), rocketmq.WithPushSubscriptionExpressions(r.subscription()),
			rocketmq.WithPushMessageListener(d.listener(r.Name)),
		)
		return d.start(r.Name, made, err)
	case "close":
		made := client[interface{ GracefulStop() error }](d, r.Name)
		return nil, made.GracefulStop()
	}
	return nil, fmt.Errorf("no such op: %s", r.Op)
}

func (r *request) subscription() map[string]*rocketmq.FilterExpression {
	if r.SQL != "" {
		return map[string]*rocketmq.FilterExpression{r.Topic: rocketmq.NewFilterExpressionWithType(r.SQL, rocketmq.SQL92)}
	}
	return map[string]*rocketmq.FilterExpression{r.Topic: rocketmq.NewFilterExpression(r.Tags)}
}

// check reads how the transaction ended from the last word of the body.
func check(got *rocketmq.MessageView) rocketmq.TransactionResolution {
	switch body := string(got.GetBody()); {
	case strings.HasSuffix(body, "commit"):
		return rocketmq.COMMIT
	case strings.HasSuffix(body, "rollback"):
		return rocketmq.ROLLBACK
	}
	return rocketmq.UNKNOWN
}

func (d *driver) send(ctx context.Context, r *request) (any, error) {
	sent := &rocketmq.Message{Topic: r.Topic, Body: r.Body}
	if r.Tag != "" {
		sent.SetTag(r.Tag)
	}
	if r.Keys != nil {
		sent.SetKeys(r.Keys...)
	}
	if r.MessageGroup != "" {
		sent.SetMessageGroup(r.MessageGroup)
	}
	if r.DeliveryMs != 0 {
		sent.SetDelayTimestamp(time.UnixMilli(r.DeliveryMs))
	}
	for key, value := range r.Properties {
		sent.AddProperty(key, value)
	}
	producer := client[rocketmq.Producer](d, r.Name)
	var receipts []*rocketmq.SendReceipt
	var err error
	if r.Transaction {
		transaction := producer.BeginTransaction()
		if receipts, err = producer.SendWithTransaction(ctx, sent, transaction); err == nil {
			d.transactions.Store(receipts[0].MessageID, transaction)
		}
	} else {
		receipts, err = producer.Send(ctx, sent)
	}
	if err != nil {
		return nil, err
	}
	return map[string]string{"id": receipts[0].MessageID, "handle": receipts[0].RecallHandle}, nil
}

func (d *driver) receive(ctx context.Context, r *request) (any, error) {
	consumer := client[rocketmq.SimpleConsumer](d, r.Name)
	got, err := consumer.Receive(ctx, r.Count, time.Duration(r.Seconds)*time.Second)
	if err != nil {
		// The client turns an empty answer into an error.
		if status, ok := rocketmq.AsErrRpcStatus(err); ok && status.Code == messageNotFound {
			return []message{}, nil
		}
		return nil, err
	}
	messages := []message{}
	for _, one := range got {
		d.received.Store(one.GetMessageId(), one)
		messages = append(messages, fields(one))
	}
	return messages, nil
}

const messageNotFound = 40401

// listener lets a body "fail N …" fail at its first N deliveries, and takes N seconds for one "slow N …".
func (d *driver) listener(name string) rocketmq.MessageListener {
	var counting sync.Mutex
	deliveries := map[string]int{}
	return &rocketmq.FuncMessageListener{Consume: func(got *rocketmq.MessageView) rocketmq.ConsumerResult {
		counting.Lock()
		deliveries[got.GetMessageId()]++
		count := deliveries[got.GetMessageId()]
		counting.Unlock()
		d.tell(map[string]any{"consumer": name, "message": fields(got)})
		words := strings.SplitN(string(got.GetBody()), " ", 3)
		if words[0] == "slow" {
			seconds, _ := strconv.Atoi(words[1])
			time.Sleep(time.Duration(seconds) * time.Second)
		}
		if words[0] == "fail" {
			if failures, _ := strconv.Atoi(words[1]); count <= failures {
				return rocketmq.FAILURE
			}
		}
		return rocketmq.SUCCESS
	}}
}

func fields(got *rocketmq.MessageView) message {
	made := message{
		ID: got.GetMessageId(), Topic: got.GetTopic(), Body: got.GetBody(), Tag: got.GetTag(), Keys: got.GetKeys(),
		Properties: got.GetProperties(), MessageGroup: got.GetMessageGroup(), Attempt: got.GetDeliveryAttempt(),
		BornMs: got.GetBornTimestamp().UnixMilli(),
	}
	if at := got.GetDeliveryTimestamp(); at != nil {
		ms := at.UnixMilli()
		made.DeliveryMs = &ms
	}
	return made
}

func main() {
	d := &driver{}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		go d.answer(&r)
	}
}
