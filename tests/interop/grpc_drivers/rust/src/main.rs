//! The driver of the Rust gRPC client. It does what each line of standard input asks, side by side.
//!
//! The client has no push consumer, no change of the invisible time, and no recall.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::engine::general_purpose::STANDARD as BASE64;
use base64::Engine;
use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};
use tokio::sync::oneshot;

const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const AWAIT: Duration = Duration::from_secs(10); // also the deadline of its receives, so the least one is too short

type Failure = Box<dyn Error + Send + Sync>;
type Answer = Result<Value, Failure>;

struct Consumer {
    client: SimpleConsumer,
    topic: String,
    filter: FilterExpression,
}

/// Says whether to commit, and how to tell the outcome.
type End = oneshot::Sender<(bool, oneshot::Sender<Result<(), Failure>>)>;

/// Keeps what later lines name: clients by their names, the rest by message ids.
struct Driver {
    producers: Mutex<HashMap<String, Arc<Producer>>>,
    consumers: Mutex<HashMap<String, Arc<Consumer>>>,
    received: Mutex<HashMap<String, Arc<MessageView>>>,
    transactions: Mutex<HashMap<String, End>>,
}

fn word(request: &Value, name: &str) -> String {
    request[name].as_str().unwrap_or_default().to_string()
}

/// A body's last word says how its transaction ended.
fn check(message: MessageView) -> TransactionResolution {
    if message.body().ends_with(b"commit") {
        return TransactionResolution::COMMIT;
    }
    if message.body().ends_with(b"rollback") {
        return TransactionResolution::ROLLBACK;
    }
    TransactionResolution::UNKNOWN
}

fn fields(message: &MessageView) -> Value {
    json!({
        "id": message.message_id(),
        "topic": message.topic(),
        "body": BASE64.encode(message.body()),
        "tag": message.tag(),
        "keys": message.keys(),
        "properties": message.properties(),
        "message_group": message.message_group(),
        "delivery_ms": message.delivery_timestamp().map(|seconds| seconds * 1000),
        "born_ms": message.born_timestamp() * 1000,
        "attempt": message.delivery_attempt(),
    })
}

impl Driver {
    fn options(request: &Value) -> ClientOption {
        let mut options = ClientOption::default();
        options.set_access_url(word(request, "endpoint"));
        options.set_enable_tls(false);
        options.set_timeout(CALL_TIMEOUT);
        options.set_long_polling_timeout(AWAIT);
        options
    }

    fn producer(&self, request: &Value) -> Result<Arc<Producer>, Failure> {
        let found = self.producers.lock().unwrap().get(&word(request, "name")).cloned();
        found.ok_or_else(|| "no such producer".into())
    }

    fn consumer(&self, request: &Value) -> Result<Arc<Consumer>, Failure> {
        let found = self.consumers.lock().unwrap().get(&word(request, "name")).cloned();
        found.ok_or_else(|| "no such consumer".into())
    }

    async fn run(&self, request: &Value) -> Answer {
        match request["op"].as_str().unwrap_or_default() {
            "producer" => self.start_producer(request).await,
            "send" => self.send(request).await,
            "end" => self.end(request).await,
            "simple" => self.start_consumer(request).await,
            "receive" => self.receive(request).await,
            "ack" => {
                let message = self.received.lock().unwrap().get(&word(request, "id")).cloned().ok_or("no such message")?;
                self.consumer(request)?.client.ack(&*message).await?;
                Ok(Value::Null)
            }
            other => Err(format!("no such op: {other}").into()),
        }
    }

    async fn start_producer(&self, request: &Value) -> Answer {
        let mut options = ProducerOption::default();
        options.set_topics(vec![word(request, "topic")]);
        let checker = Box::new(|_id: String, message: MessageView| check(message));
        let mut producer = Producer::new_transaction_producer(options, Self::options(request), checker)?;
        producer.start().await?;
        self.producers.lock().unwrap().insert(word(request, "name"), Arc::new(producer));
        Ok(Value::Null)
    }

    async fn start_consumer(&self, request: &Value) -> Answer {
        let mut options = SimpleConsumerOption::default();
        options.set_topics(vec![word(request, "topic")]);
        options.set_consumer_group(word(request, "group"));
        let mut client = SimpleConsumer::new(options, Self::options(request))?;
        client.start().await?;
        let filter = match request["sql"].as_str() {
            Some(sql) => FilterExpression::new(FilterType::Sql, sql),
            None => FilterExpression::new(FilterType::Tag, word(request, "tags")),
        };
        let consumer = Consumer { client, topic: word(request, "topic"), filter };
        self.consumers.lock().unwrap().insert(word(request, "name"), Arc::new(consumer));
        Ok(Value::Null)
    }

    fn message(request: &Value) -> Result<MessageBuilder, Failure> {
        let mut builder = MessageBuilder::builder().set_topic(word(request, "topic"));
        builder = builder.set_body(BASE64.decode(word(request, "body"))?);
        if let Some(tag) = request["tag"].as_str() {
            builder = builder.set_tag(tag);
        }
        if let Some(keys) = request["keys"].as_array() {
            builder = builder.set_keys(keys.iter().filter_map(Value::as_str).collect::<Vec<_>>());
        }
        if let Some(properties) = request["properties"].as_object() {
            let texts = properties.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default()));
            builder = builder.set_properties(texts.collect::<HashMap<_, _>>());
        }
        if let Some(group) = request["message_group"].as_str() {
            builder = builder.set_message_group(group);
        }
        if let Some(delivery_ms) = request["delivery_ms"].as_i64() {
            builder = builder.set_delivery_timestamp(delivery_ms / 1000); // it takes whole seconds
        }
        Ok(builder)
    }

    async fn send(&self, request: &Value) -> Answer {
        let producer = self.producer(request)?;
        let builder = Self::message(request)?;
        if request["transaction"].as_bool() != Some(true) {
            let receipt = producer.send(builder.build()?).await?;
            return Ok(json!({"id": receipt.message_id()}));
        }
        // The type of a transaction has no name, so a task keeps it until its end is asked for.
        let (told_id, id) = oneshot::channel();
        let (told_end, end) = oneshot::channel::<(bool, oneshot::Sender<Result<(), Failure>>)>();
        tokio::spawn(async move {
            let sent = match builder.enable_transaction().build() {
                Ok(message) => producer.send_transaction_message(message).await,
                Err(failure) => Err(failure),
            };
            match sent {
                Ok(transaction) => {
                    let _ = told_id.send(Ok(transaction.message_id().to_string()));
                    if let Ok((commit, outcome)) = end.await {
                        let ended = if commit { transaction.commit().await } else { transaction.rollback().await };
                        let _ = outcome.send(ended.map_err(Failure::from));
                    }
                }
                Err(failure) => {
                    let _ = told_id.send(Err(failure));
                }
            }
        });
        let id = id.await??;
        self.transactions.lock().unwrap().insert(id.clone(), told_end);
        Ok(json!({"id": id}))
    }

    async fn end(&self, request: &Value) -> Answer {
        let end = self.transactions.lock().unwrap().remove(&word(request, "id")).ok_or("no such transaction")?;
        let (outcome, ended) = oneshot::channel();
        end.send((request["commit"].as_bool() == Some(true), outcome)).map_err(|_| "the transaction is over")?;
        ended.await??;
        Ok(Value::Null)
    }

    async fn receive(&self, request: &Value) -> Answer {
        let consumer = self.consumer(request)?;
        let count = request["count"].as_i64().unwrap_or(1) as i32;
        let invisible = Duration::from_secs(request["seconds"].as_u64().unwrap_or_default());
        let messages = consumer.client.receive_with(&consumer.topic, &consumer.filter, count, invisible).await?;
        let answer = messages.iter().map(fields).collect();
        let mut received = self.received.lock().unwrap();
        for message in messages {
            received.insert(message.message_id().to_string(), Arc::new(message));
        }
        Ok(Value::Array(answer))
    }
}

fn tell(line: Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

#[tokio::main]
async fn main() {
    let driver = Arc::new(Driver {
        producers: Mutex::default(),
        consumers: Mutex::default(),
        received: Mutex::default(),
        transactions: Mutex::default(),
    });
    let (told, mut asked) = tokio::sync::mpsc::unbounded_channel::<Value>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let request = serde_json::from_str(&line.expect("a line")).expect("an object");
            if told.send(request).is_err() {
                return;
            }
        }
    });
    while let Some(request) = asked.recv().await {
        let driver = driver.clone();
        tokio::spawn(async move {
            tell(match driver.run(&request).await {
                Ok(result) => json!({"call": request["call"], "result": result}),
                Err(failure) => json!({"call": request["call"], "error": format!("{failure:?}")}),
            });
        });
    }
    std::process::exit(0);
}
